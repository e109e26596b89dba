"""Events on their way to the sockets of readers: described as they leave, once for all who stand at one place."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol, cast

from ...core.delivery.audience import Client
from ...core.events.described import DescribedEvents, Streams
from ...core.wires.compression import GZIP_HEAD, pack
from ..runtime.socket_writer import write_each
from .client_socket import ClientSocket

log = logging.getLogger("fastpath.clients")


class EventLink(Protocol):
    """A connection that events are written to."""

    closing: bool
    fd: int
    stream: EventStream | None

    @property
    def socket(self) -> ClientSocket[Any]:
        """The socket that it has."""

    def write(self, data: bytes) -> None:
        """Send whole events."""

    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""

    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes (-1: it is broken)."""


class EventStream:
    """Stands between the outbox and the socket of a client that reads events.

    What is sent is described as it leaves: whatever is taken out of the outbox before, as what a right that ended
    covers, is in no cursor. A piece that was begun is kept here until the socket has taken it.
    """

    __slots__ = ("_rest", "_streams", "at", "deflate_bytes")

    def __init__(self, streams: Streams, at: DescribedEvents, deflate_bytes: int) -> None:
        self._streams = streams
        self.at = at
        self.deflate_bytes = deflate_bytes
        """Pieces of that size or more are compressed; 0: the stream is plain."""
        self._rest: bytes | memoryview = b""

    @property
    def waits(self) -> bool:
        """Whether the socket has not taken all of what was begun."""
        return bool(self._rest)

    def begin(self, send_now: Callable[[bytes | memoryview], int], head: bytes, events: bytes) -> int:
        """Send the head of the answer and the first events, as they are; -1 when the socket is broken."""
        self._rest = head + (GZIP_HEAD if self.deflate_bytes else b"") + self.packed(events)
        return self.flush(send_now)

    def packed(self, described: bytes) -> bytes:
        """Events as they go over this stream."""
        return pack(described, self.deflate_bytes) if self.deflate_bytes and described else described

    def send(self, send_now: Callable[[bytes | memoryview], int], data: bytes | memoryview) -> int:
        """Take whole events and return their size; 0 while the socket is full, -1 when it is broken."""
        if self._rest and (count := self.flush(send_now)) <= 0:
            return count
        try:
            described, at = self._streams.follow(self.at, bytes(data))
        except Exception:
            log.exception("fault while describing events: the stream is ended")
            return -1  # the others are written to all the same
        packed = self.packed(described)
        count = send_now(packed) if packed else 0
        if count < 0:
            return -1
        self.sent(at, packed[count:])
        return len(data)

    def sent(self, at: DescribedEvents, rest: bytes) -> None:
        """All up to this place was handed to the socket, of which it has left the rest."""
        self.at = at
        self._rest = rest

    def flush(self, send_now: Callable[[bytes | memoryview], int]) -> int:
        """Send what is left of what was begun: 1 when the socket took it, 0 when not all, -1 when it is broken."""
        count = send_now(self._rest)
        if count < 0:
            return -1
        self._rest = memoryview(self._rest)[count:]  # what is large is not copied for each piece that is taken
        return 0 if self._rest else 1


class EventStreams:
    """All streams of events of a process."""

    def __init__(self) -> None:
        self._streams = Streams()

    def open(self, asked: Sequence[str], since: Mapping[str, tuple[int, int]], deflate_bytes: int) -> EventStream:
        """A stream of these subjects and patterns for a reader that comes with these positions; pieces from
        ``deflate_bytes`` on are compressed, 0: none."""
        return EventStream(self._streams, DescribedEvents(asked, since), deflate_bytes)

    def write(self, clients: list[Client], data: bytes) -> None:
        """Write the same events to readers of one group: those that keep up are written what is described once for all
        that stand at one place; the others go their own way."""
        places: dict[tuple[DescribedEvents, int], list[EventLink]] = {}
        for client in clients:
            link = cast(EventLink, client.link)
            stream = link.stream
            if stream is None or client.queue is not None or stream.waits or link.closing or not link.socket.direct:
                link.write(data)
            elif (place := (stream.at, stream.deflate_bytes)) in places:
                places[place].append(link)
            else:
                places[place] = [link]
        for (at, deflate_bytes), links in places.items():
            self._write_all(at, deflate_bytes, links, data)

    def _write_all(self, at: DescribedEvents, deflate_bytes: int, links: list[EventLink], data: bytes) -> None:
        try:
            described, behind = self._streams.follow(at, data)
            if deflate_bytes and described:
                described = pack(described, deflate_bytes)
        except Exception:
            log.exception("fault while describing events: %d streams are ended", len(links))
            for link in links:
                link.lag(b"", -1)
            return
        size = len(described)
        fds = [link.fd for link in links]
        written = write_each(map(os.write, fds, repeat(described))) if size else [0] * len(fds)
        for link, count in zip(links, written, strict=True):
            assert link.stream is not None
            if count == size:
                link.stream.sent(behind, b"")
            elif count < 0:
                link.lag(b"", -1)
            else:
                link.stream.sent(behind, described[count:])
                link.await_writable(True)
