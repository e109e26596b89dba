"""Events for bare readers: asked for, and on their way described as they leave, once for all who stand at one place."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from time import perf_counter
from typing import cast

from ...core.delivery.audience import Client
from ...core.events.described import DescribedEvents, Streams
from ...core.events.request import EventsRequest, opening, parse_events_request
from ...core.protocol.codec import JSON, SSE, encode
from ...core.protocol.errors import Close, InvalidMessage
from ...core.protocol.messages import Connect, Subscribe
from ...core.websocket.handshake import BadRequest, Request
from ...core.wires.compression import GZIP_HEAD, accepts_gzip, pack
from ..runtime.runtime import Runtime, now
from ..runtime.socket_writer import write_each
from .client_stream import ClientStreamLink, SendNow, Stream
from .handshake import events_head, terms_over, token_of

_MAY_BE_GZIP = "Vary: Accept-Encoding\r\n"
_GZIP = f"Content-Encoding: gzip\r\n{_MAY_BE_GZIP}"

log = logging.getLogger("fastpath.clients")


class EventStream(Stream):
    """Stands between the outbox and the socket of a client that reads events.

    What is sent is described as it leaves: whatever is taken out of the outbox before, as what a right that ended
    covers, is in no cursor.
    """

    __slots__ = ("_streams", "at", "deflate_bytes")

    def __init__(self, streams: Streams, at: DescribedEvents, deflate_bytes: int) -> None:
        super().__init__()
        self._streams = streams
        self.at = at
        self.deflate_bytes = deflate_bytes
        """Pieces of that size or more are compressed; 0: the stream is plain."""

    def begin(self, send_now: SendNow, head: bytes, events: bytes) -> int:
        """Send the head of the answer and the first events, as they are; -1 when the socket is broken."""
        self._rest = head + (GZIP_HEAD if self.deflate_bytes else b"") + self.packed(events)
        return self.flush(send_now)

    def packed(self, described: bytes) -> bytes:
        """Return events as they go over this stream."""
        return pack(described, self.deflate_bytes) if self.deflate_bytes and described else described

    def send(self, send_now: SendNow, data: bytes | memoryview) -> int:
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
        """Note that all up to this place was handed to the socket, of which it has left the rest."""
        self.at = at
        self._rest = rest


class EventStreams:
    """All streams of events of a process."""

    def __init__(self) -> None:
        self._streams = Streams()

    def open(self, asked: Sequence[str], since: Mapping[str, tuple[int, int]], deflate_bytes: int) -> EventStream:
        """Open a stream of these subjects and patterns for a reader that comes with these positions; pieces from
        ``deflate_bytes`` on are compressed, 0: none."""
        return EventStream(self._streams, DescribedEvents(asked, since), deflate_bytes)

    def write(self, clients: list[Client], data: bytes) -> None:
        """Write the same events to readers of one group: those that keep up are written what is described once for all
        that stand at one place; the others go their own way."""
        places: dict[tuple[DescribedEvents, int], list[ClientStreamLink]] = {}
        for client in clients:
            link = cast(ClientStreamLink, client.link)
            stream: EventStream | None = link.stream
            if stream is None or client.queue is not None or stream.waits or link.closing or not link.socket.direct:
                link.write(data)
            elif (place := (stream.at, stream.deflate_bytes)) in places:
                places[place].append(link)
            else:
                places[place] = [link]
        for (at, deflate_bytes), links in places.items():
            self._write_all(at, deflate_bytes, links, data)

    def _write_all(self, at: DescribedEvents, deflate_bytes: int, links: list[ClientStreamLink], data: bytes) -> None:
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
            if count == size:
                link.stream.sent(behind, b"")
            elif count < 0:
                link.lag(b"", -1)
            else:
                link.stream.sent(behind, described[count:])
                link.await_writable(True)


def begin_events(link: ClientStreamLink, runtime: Runtime, request: Request) -> None:
    """Answer a request for events, which asks for all that its stream will ever bring; raises BadRequest.

    Who may come back is told so by the stream, as a browser gives up for good at any other answer; who may not gets a
    status.
    """
    try:
        asked = parse_events_request(request.query, request.headers.get("last-event-id", ""))
    except InvalidMessage as error:
        raise BadRequest(400, f"This is no request for events: {error.reason}.") from None
    link.come_from(request)
    token = token_of(request)
    refused = link.open(token, terms_over(SSE, link.socket.listener))
    if refused is not None and refused.code >= Close.BAD_MESSAGE:
        raise BadRequest(401, f"{refused.code.label}: {refused.reason}")
    link.tell_opened(request, token, refused)
    offered = link.socket.listener.deflate  # 0: compression is not for this port
    deflate_bytes = offered if accepts_gzip(request.headers.get("accept-encoding", "")) else 0
    stream = runtime.events.open(asked.subjects, asked.known, deflate_bytes)
    coding = (_GZIP if deflate_bytes else _MAY_BE_GZIP) if offered else ""
    head = events_head(request, runtime.access.origins is not None, coding)
    if not link.flow(stream, head, opening(asked)) or link.turn_away(refused):
        return
    link.settle()
    _ask(link, runtime, asked, request.headers.get("user-agent", ""))


def _ask(link: ClientStreamLink, runtime: Runtime, asked: EventsRequest, program: str) -> None:
    """Have the commands done that the request stands for; in turns, where many come at once."""
    scheduler = runtime.scheduler
    if scheduler.spent:
        scheduler.later(partial(_ask_now, link, runtime, asked, program))
        return
    began = perf_counter()
    _ask_now(link, runtime, asked, program)
    scheduler.spend(perf_counter() - began)


def _ask_now(link: ClientStreamLink, runtime: Runtime, asked: EventsRequest, program: str) -> None:
    client, (subjects, history, conflation, slow, since, _) = link.client, asked
    if client is None or link.closing:
        return
    subscribe = Subscribe(id=1, subjects=subjects, history=history, conflation=conflation, slow=slow, since=since)
    for command in (Connect(id=0, client=program), subscribe):
        runtime.sessions.receive(client, encode(command, JSON), now())
    runtime.end()
