"""The answers that commands wait for, and the listeners to changes of status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakSet

from fastpath.core.protocol.messages import AnyAnswer, Response

from ..message import Status
from .streams import Feed

log = logging.getLogger("fastpath.client")

STATUS_KEPT_MAX = 10_000
"""Changes of status that wait for a reader; a reader that sleeps longer misses the newer ones."""


class Answers:
    """Commands by id whose answers are due on the connection that stands."""

    def __init__(self) -> None:
        self._due: dict[int, asyncio.Future[AnyAnswer]] = {}
        self._replies: dict[int, list[Response]] = {}

    def expect(self, number: int) -> asyncio.Future[AnyAnswer]:
        """Return a future for the answer to the command of this number."""
        future: asyncio.Future[AnyAnswer] = asyncio.get_running_loop().create_future()
        self._due[number] = future
        future.add_done_callback(lambda _: self._due.pop(number, None))
        return future

    def collect(self, number: int) -> tuple[asyncio.Future[AnyAnswer], list[Response]]:
        """Return a future for the last reply to the request of this number, and the list for the replies before it."""
        future, replies = self.expect(number), list[Response]()
        self._replies[number] = replies
        future.add_done_callback(lambda _: self._replies.pop(number, None))
        return future, replies

    def settle(self, number: int, answer: AnyAnswer) -> None:
        """Hand an answer that came to whoever waits for it."""
        if isinstance(answer, Response) and answer.more:
            self._replies.get(number, []).append(answer)
            return
        future = self._due.get(number)
        if future is not None and not future.done():
            future.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Raise the error in everyone who still waits for an answer."""
        for future in list(self._due.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen, even where nobody waits for it any more
        self._due.clear()


class Statuses:
    """The listeners to changes of status: a callback and any number of feeds."""

    def __init__(self, callback: Callable[[Status], None] | None) -> None:
        self._callback = callback
        self._feeds: WeakSet[Feed[Status]] = WeakSet()  # what nobody reads any more is gone
        self._ended = False

    def feed(self) -> Feed[Status]:
        """Return a new feed of what is told from now on."""
        feed: Feed[Status] = Feed()
        if self._ended:
            feed.end()
        else:
            self._feeds.add(feed)
        return feed

    def tell(self, status: Status) -> None:
        """Tell a change of status to the callback and to every feed."""
        if self._callback is not None and not self._ended:
            try:
                self._callback(status)
            except Exception:
                log.exception("the callback for changes of status failed")
        for feed in self._feeds:
            if len(feed) < STATUS_KEPT_MAX:
                feed.push(status)

    def end(self) -> None:
        """End every feed; no later change of status is told."""
        self._ended = True
        for feed in self._feeds:
            feed.end()
        self._feeds.clear()
