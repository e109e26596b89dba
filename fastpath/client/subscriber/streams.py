"""Queues that one task fills and another reads with ``async for``."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Self, TypeVar

from ..message import Message
from .subscription_set import covered

T = TypeVar("T")
U = TypeVar("U")


class Feed(Generic[T]):
    """A queue that ends when its source ends it, with an error or without; what is in it can still be read then."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def __len__(self) -> int:
        return len(self._items)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next item; a cancelled wait loses nothing."""
        await self._wait()
        self._room.set()
        return self._items.popleft()

    async def take(self) -> list[T]:
        """Return all items that are there, at least one; raise StopAsyncIteration at the end."""
        await self._wait()
        items = list(self._items)
        self._items.clear()
        self._room.set()
        return items

    def push(self, item: T) -> None:
        """Add an item."""
        if not self._ended:
            self._items.append(item)
            self._changed.set()

    def end(self, error: BaseException | None = None) -> None:
        """End the feed; the reader gets the error after what is left."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._changed.set()
            self._room.set()

    def drop(self, unwanted: Callable[[T], bool]) -> None:
        """Forget items that nobody read yet."""
        self._items = deque(item for item in self._items if not unwanted(item))
        self._room.set()

    async def wait_room(self, items_max: int) -> None:
        """Wait until the reader has taken enough."""
        while len(self._items) >= items_max and not self._ended:
            self._room.clear()
            await self._room.wait()

    async def ready(self) -> None:
        """Wait until an item is there; raises StopAsyncIteration, or the error, at the end."""
        await self._wait()

    async def _wait(self) -> None:
        while not self._items:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()


class MessageStream(Feed[Message]):
    """The messages of some subjects; leave ``async with`` (or call ``aclose()``) to unsubscribe from them."""

    def __init__(
        self, subjects: Iterable[str], unsubscribe: Callable[[MessageStream, set[str]], Awaitable[None]]
    ) -> None:
        super().__init__()
        self.subjects = set(subjects)
        self._unsubscribe = unsubscribe

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Unsubscribe from the subjects that are still this stream's; other streams with them go on."""
        await self._unsubscribe(self, self.subjects)
        self.end()

    def unwanted(self, names: set[str]) -> Callable[[Message], bool]:
        """Return a test for messages that came by the left ``names`` alone; to be called after ``leave``."""
        left = self.subjects - names
        return lambda message: covered(message.subject, names) and not covered(message.subject, left)

    def leave(self, subjects: set[str]) -> None:
        """Take subjects or patterns from this stream; without any it ends."""
        self.subjects = self.subjects - subjects
        if not self.subjects:
            self.end()


async def either(first: Feed[T], second: Feed[U]) -> None:
    """Wait until one of two feeds has an item; raises as the one that ends."""
    waits = [asyncio.ensure_future(first.ready()), asyncio.ensure_future(second.ready())]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
    for one in done:
        one.result()
