"""Waiting for an event by asking for it again, instead of sleeping for a guessed time, and for how long at most."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
INTERVAL_SECONDS = 0.01
PATIENCE_SECONDS = 60.0 if os.environ.get("CI") == "true" else 10.0
"""How long anything that has to come is waited for: a wait that succeeds costs nothing, and a busy machine is no fault.

Every wait takes its limit from here, or a longer one where what is waited for is known to take long. What succeeds by
*not* getting something must not wait for so long, and says for how long it does.
"""


def until(predicate: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Ask until the answer is true and return it; AssertionError after ``seconds``, or our patience if it is longer."""
    end = time.monotonic() + max(seconds, PATIENCE_SECONDS)
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not true within {max(seconds, PATIENCE_SECONDS)} s: {_source(predicate)}")
        time.sleep(INTERVAL_SECONDS)


async def auntil(predicate: Callable[[], T | Awaitable[T]], seconds: float = PATIENCE_SECONDS) -> T:
    """Ask until the answer is true and return it; AssertionError after ``seconds``, or our patience if it is longer."""
    end = time.monotonic() + max(seconds, PATIENCE_SECONDS)
    while True:
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not true within {max(seconds, PATIENCE_SECONDS)} s: {_source(predicate)}")
        await asyncio.sleep(INTERVAL_SECONDS)


def run(story: Coroutine[Any, Any, T], seconds: float = 3 * PATIENCE_SECONDS) -> T:
    """Run a coroutine, which may wait several times, in a loop of its own; TimeoutError after ``seconds``."""
    return asyncio.run(asyncio.wait_for(story, max(seconds, 3 * PATIENCE_SECONDS)))


def _source(predicate: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(predicate).strip()
    except (OSError, TypeError):
        return repr(predicate)
