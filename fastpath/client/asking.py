"""Asks a function of the program, async or not, and waits for its answer only so long."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def ask(function: Callable[[], T | Awaitable[T]], seconds: float, what: str) -> T:
    """Call the function and return its answer; raise its error, or TimeoutError, which names ``what``, after the
    seconds.

    A function that is not async runs in a thread of its own, so that it holds up nothing else while it waits for a
    network. A function that does not end in time is left to itself: a task is cancelled, a thread cannot be.
    """
    return await within(_answer(function), seconds, what)


async def within(awaitable: Awaitable[T], seconds: float, what: str) -> T:
    """Return the result, or raise TimeoutError after the seconds, even if the awaitable does not let itself be
    cancelled."""
    task = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(_forget)
    if not done:
        raise TimeoutError(f"{what}: no answer within {seconds:g} s")
    if task.cancelled():
        raise RuntimeError(f"{what}: it was cancelled from within")  # this is not we who are
    return task.result()


async def _answer(function: Callable[[], T | Awaitable[T]]) -> T:
    answer = function() if is_async(function) else await _in_thread(function)
    return cast("T", await answer if inspect.isawaitable(answer) else answer)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if calling the function, method or object makes a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004  # it is looked at, not asked whether it is there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


async def _in_thread(function: Callable[[], T]) -> T:
    """Run the function in a thread that ends with the process, also where it hangs; no pool's are used up by it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(cast("T", result))
        else:
            future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stop:  # no future can have it
            error = RuntimeError(repr(stop))
        except BaseException as problem:
            error = problem
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="fastpath-ask", daemon=True).start()
    return await future


def _forget(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # seen, though nobody waits for it any more
