"""Waiting for an event by asking for it again, instead of sleeping for a guessed time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
INTERVAL_SECONDS = 0.01


class Late(AssertionError):
    """All came that should, and later than it should: what ``timing(only="Late")`` is for."""


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Late if what is done within took longer; what is wrong with it besides is no matter of time."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    if took > seconds:
        raise Late(f"it took {took:.2f} s, and not {seconds} s at most")


def on_time(condition: object, told: object = "") -> None:
    """Late unless the condition holds, which must be one that only a slow machine breaks."""
    if not condition:
        raise Late(f"too late: {told}")


def until(predicate: Callable[[], T], seconds: float = 10) -> T:
    """Ask until the answer is true and return it; AssertionError after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not true within {seconds} s: {_source(predicate)}")
        time.sleep(INTERVAL_SECONDS)


async def auntil(predicate: Callable[[], T | Awaitable[T]], seconds: float = 10) -> T:
    """The same inside a loop; the predicate may be a coroutine function."""
    end = time.monotonic() + seconds
    while True:
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not true within {seconds} s: {_source(predicate)}")
        await asyncio.sleep(INTERVAL_SECONDS)


def run(story: Coroutine[Any, Any, T], seconds: float = 30) -> T:
    """Run a coroutine in a loop of its own; TimeoutError after ``seconds``."""
    return asyncio.run(asyncio.wait_for(story, seconds))


def _source(predicate: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(predicate).strip()
    except (OSError, TypeError):
        return repr(predicate)
