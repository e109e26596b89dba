"""What a client is written goes to its socket: the outbox says what becomes of it, and here it is done.

One performer serves all connections of a process, and keeps nothing of them. What a socket is it does not know: a
descriptor, TLS, the answer to a poll, or the list of a test are ``Socket`` to it, four methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from .outbox import Effect

if TYPE_CHECKING:
    from .audience import Client
    from .outbox import Outboxes


class Socket(Protocol):
    """The socket that pieces are written to, as the performer sees it."""

    def send(self, data: bytes | memoryview) -> int:
        """Take whole pieces, or the rest of some, and return how many bytes were taken; -1 when it is broken."""

    def wait(self, data: bytes, sent: int) -> None:
        """Have these pieces wait, but for the bytes that were sent: tell past them what of it may not."""

    def await_room(self, wanted: bool) -> None:
        """Have ``Performer.drain`` called when bytes are taken again; or no more."""

    def end(self, effect: int) -> None:
        """Let go: it is broken (``Effect.LOST``), takes too little (``OVERFLOW``), or has taken what was said last
        (``ENDED``)."""


class Written(Socket, Protocol):
    """A connection that is written to; until ``client`` is there nothing of it can wait."""

    closing: bool
    """Goodbye was said: what comes now is written as it ends."""

    @property
    def client(self) -> Client | None:
        """The client, from when it has been let in."""

    @property
    def bounded(self) -> bool:
        """True if the bound on what waits holds for the client now."""


class Performer:
    """Performs the effects of outboxes on the sockets of their clients.

    ``later`` calls a function with its arguments between two handlers; ``end`` is the end of a handler.
    """

    def __init__(self, outboxes: Outboxes, later: Callable[..., object], end: Callable[[], None]) -> None:
        self._outboxes = outboxes
        self._later = later
        self._end = end

    def write(self, link: Written, data: bytes) -> None:
        """Write whole pieces, also while the connection ends: behind the queue if there is one; what is not taken
        begins one."""
        client = link.client
        if client is not None and (queue := client.queue) is not None:
            link.wait(data, 0)
            self._perform(link, self._outboxes.offered(client, queue, data, bounded=link.bounded))
            return
        count = link.send(data)
        if count != len(data):
            if count >= 0:
                link.wait(data, count)
            self.lag(link, data, count)

    def lag(self, link: Written, data: bytes, sent: int) -> None:
        """Have the rest wait, as the socket took only ``sent`` bytes; its owner leaves the fast lane."""
        client = link.client
        if client is None:
            self._later(link.end, Effect.LOST)
            return
        self._perform(link, self._outboxes.refused(client, data, sent, bounded=link.bounded))

    def drain(self, link: Written) -> None:
        """Write what waits, as far as the socket takes it now."""
        client = link.client
        if client is None or client.queue is None:
            return
        if self._outboxes.torn(client):
            self.turn(link)
        queue = client.queue
        while queue.chunks:
            data = queue.front()
            count = link.send(data)
            if count < 0:
                link.end(Effect.LOST)
                return
            queue.advance(count)
            if count < len(data):
                return
        self._perform(link, self._outboxes.drained(client, ending=link.closing))

    def turn(self, link: Written) -> None:
        """Let the client fall behind, or pull it level, a slice a turn of the loop; called between two handlers."""
        client = link.client
        if client is not None and not link.closing:
            behind = self._outboxes.turn(client)
            self._end()
            if behind and client.queue is None:
                self._later(self.turn, link)

    def _perform(self, link: Written, effects: int) -> None:
        """Do what the outbox says, in the order of ``Effect``."""
        if not effects:
            return
        if effects & Effect.LOST:
            self._later(link.end, Effect.LOST)
        if effects & Effect.BLOCKED:
            link.await_room(True)
        if effects & Effect.UNBLOCKED:
            link.await_room(False)
        if effects & Effect.TURN:
            self._later(self.turn, link)
        if effects & Effect.OVERFLOW:
            link.end(Effect.OVERFLOW)
        if effects & Effect.ENDED:
            link.end(Effect.ENDED)
