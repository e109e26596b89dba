"""One connection of a client port: upgrade, frames in, frames out, and how it ends; sockets are its subclasses'."""

from __future__ import annotations

from abc import abstractmethod

from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.delivery.outbox import Effect
from ...core.protocol.errors import Close
from ...core.telemetry.counters import BY_CLIENT, LABELS, LOST, OTHER
from ...core.websocket.close_frames import close_payload, parse_close
from ...core.websocket.frames import CLOSE, SKIM, FrameReader, encode_frame
from ...core.websocket.handshake import BadRequest, error_response, parse_request
from ...listen_address import Listener
from ..runtime.connection_log import client_closed, request_refused
from ..runtime.runtime import Runtime, now
from .handshake import Handshake

GOODBYE_SECONDS = 5
"""How long a connection that was told goodbye may take to answer."""

REFUSED_SECONDS = 2
"""How long a refused request's socket is kept, so that what is still on its way does not reset it before the client
has read why."""


class ClientConnection(Handshake):
    """What the plain and the TLS connection have in common; implements core.delivery.link.Link.

    States: a request head is read (``client`` is None), then commands, then ``closing``: what was said goodbye is
    written out and whatever comes is discarded until the socket ends.
    """

    __slots__ = ()

    def __init__(self, runtime: Runtime, fd: int, address: str, listener: Listener) -> None:
        self.runtime = runtime
        self.listener = listener
        self.fd = fd
        self.address = address
        self.client: Client | None = None
        self.reader: FrameReader | None = None
        self.closing = False
        self.ended = False
        self.fresh = True
        self.echoing = False
        self.head = b""
        self.held = 0
        runtime.connection_opened()
        runtime.expect(self, runtime.settings.handshake_seconds)

    # What the subclass gives

    @abstractmethod
    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; how many it took, -1 when it is broken."""

    @abstractmethod
    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""

    @abstractmethod
    def finish(self) -> None:
        """Nothing more will be written."""

    @abstractmethod
    def shut(self) -> None:
        """Close the socket."""

    # Bytes in (edge/clients/incoming.py)

    def now(self) -> int:
        """The time in ms."""
        return now()

    def peer_closed(self, payload: bytes) -> None:
        """The client closes, or answers our close (RFC 6455 5.5.1)."""
        if not self.closing:
            code, reason = parse_close(payload)
            if self.client is not None:
                self.runtime.sessions.outboxes.leave(self.client, code, reason or "closed by the client")
            self.runtime.broker.counters.closed("by_client")
            self._tell_end(BY_CLIENT)
            self.closing = True
            self.write_out(encode_frame(CLOSE, close_payload(code) if payload else b""))
            if self.client is not None:
                self.runtime.loop.call_soon(self.runtime.sessions.close, self.client)
            self.runtime.expect(self, GOODBYE_SECONDS)
        if self.client is None or self.client.queue is None:
            self.lost()

    def broken(self) -> None:
        """The client broke the framing: what is wrong is said, and nothing more is read."""
        assert self.reader is not None and self.reader.error is not None and self.client is not None
        self.close(self.reader.error.code, f"{self.reader.error.code.label}: {self.reader.error.reason}")
        if self.client.queue is None:
            self._sent_all()

    def _sent_all(self) -> None:
        """End the connection, all being sent, if the peer's answer to the goodbye has come or would not be seen."""
        assert self.reader is not None
        if self.reader.error is not None:
            self.finish()  # no frame of this peer is read any more
        elif self.reader.over:
            self.lost()

    # The request

    def requested(self, data: bytes) -> None:
        """Bytes of the request came."""
        self.head += data
        try:
            request = parse_request(self.head)
            if request is None:
                return
            self.upgrade(request)
        except BadRequest as error:
            for told in self.runtime.connection_listeners:
                told.rejected(self.address, error.reason, status=error.status)
            self._refuse(error.response(), error.status, error.reason)

    def _refuse(self, response: bytes, status: int, reason: str) -> None:
        request_refused(self.address, status, reason)
        self.runtime.broker.counters.connections_refused += 1
        self.closing = True
        self.runtime.connection_closed()  # those who only read their refusal take no place
        self.send_now(response)
        self.finish()
        self.runtime.expect(self, REFUSED_SECONDS)

    def over_limit(self) -> None:
        """The port is full: say so and let go."""
        self.runtime.broker.counters.limit("connections")
        for told in self.runtime.connection_listeners:
            told.rejected(self.address, "too many connections", status=503)
        response = error_response(503, "Too many connections; try again later.", [("Retry-After", "5")])
        self._refuse(response, 503, "too many connections")

    # Bytes out (core.delivery.link.Link)

    def write(self, data: bytes) -> None:
        """Send whole frames; what the socket does not take goes to the queue."""
        if not self.closing:
            self.write_out(data)

    def write_out(self, data: bytes) -> None:
        """Write bytes, also while the connection ends: behind a queue if there is one; what is not taken begins one."""
        client = self.client
        if client is not None and (queue := client.queue) is not None:
            outboxes = self.runtime.sessions.outboxes
            self._perform(client, outboxes.offered(client, queue, data, bounded=not (self.closing or self.echoing)))
            return
        count = self.send_now(data)
        if count != len(data):
            self.lag(data, count)

    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes: the rest waits, and its owner leaves the fast lane."""
        client = self.client
        if client is None:
            self.runtime.loop.call_soon(self.lost)
            return
        outboxes = self.runtime.sessions.outboxes
        self._perform(client, outboxes.refused(client, data, sent, bounded=not (self.closing or self.echoing)))

    def _perform(self, client: Client, effects: int) -> None:
        """Do what the client's outbox says (core/delivery/outbox.py)."""
        if not effects:
            return
        runtime = self.runtime
        if effects & Effect.LOST:
            runtime.loop.call_soon(self.lost)
        if effects & Effect.BLOCKED:
            runtime.blocked[client] = now()
            self.await_writable(True)
            if self.echoing:
                self.hold(PauseReason.ECHOING, True)
        if effects & Effect.UNBLOCKED:
            runtime.blocked.pop(client, None)
            self.await_writable(False)
            if self.echoing and not self.closing:
                self.hold(PauseReason.ECHOING, False)
        if effects & Effect.TURN:
            runtime.loop.call_soon(self._turn)
        if effects & Effect.OVERFLOW:
            self.close(*runtime.sessions.outboxes.overflow, runtime.settings.slow_close_seconds)
        if effects & Effect.ENDED:
            self._sent_all()

    def _turn(self) -> None:
        """Between two handlers: the client falls behind, or is pulled level, a slice a turn of the loop."""
        client = self.client
        if client is not None and not self.closing:
            behind = self.runtime.sessions.outboxes.turn(client)
            self.runtime.end()
            if behind and client.queue is None:
                self.runtime.loop.call_soon(self._turn)

    def writable(self) -> None:
        """The socket takes bytes again."""
        client = self.client
        if self.ended or client is None or client.queue is None:
            return
        outboxes = self.runtime.sessions.outboxes
        if outboxes.torn(client):
            self._turn()
        queue = client.queue
        while queue.chunks:
            data = queue.front()
            count = self.send_now(data)
            if count < 0:
                self.lost()
                return
            queue.advance(count)
            if count < len(data):
                return
        self._perform(client, outboxes.drained(client, ending=self.closing))

    # Ends

    def close(self, code: int, reason: str, seconds: float = GOODBYE_SECONDS) -> None:
        """Send what the core still has for the client, then a close frame; the socket ends when the client answers."""
        if self.closing:
            return
        client = self.client
        self.runtime.broker.counters.closed(reason.partition(":")[0])
        if client is None or self.reader is None:
            self._refuse(error_response(500, "A fault of the server; try again."), 500, reason)
            return
        last = self.runtime.sessions.outboxes.end(client, code, reason)
        self._tell_end(LABELS.get(code, OTHER))
        self.closing = True
        if self.reader.deflate:
            self.reader.deflate = SKIM
        if self.held:
            self.runtime.paused.pop(self, None)
            self.hold(~PauseReason.TURN, False)  # for its answer to the close
        self.write_out(last)
        self.runtime.loop.call_soon(self.runtime.sessions.close, client)
        self.runtime.expect(self, seconds)

    def _tell_end(self, name: str) -> None:
        """Count it, and tell the log; its subscriptions are still there."""
        client, counters = self.client, self.runtime.broker.counters
        if client is None:
            return
        if client.number:
            counters.ended(name)
        elif not self.echoing:
            counters.connections_refused += 1  # its WebSocket was opened only to tell it why not
        client_closed(self.runtime, client, name, now())

    def expire(self) -> None:
        """A deadline passed: no command in time, or no answer to our close."""
        if self.closing:
            self.lost()
        elif self.client is None:
            self.runtime.broker.counters.limit("handshake")
            self._refuse(error_response(408, "No request in time."), 408, "no request in time")
        else:
            self.close(Close.HANDSHAKE_TIMEOUT, "handshake_timeout: no first command in time")

    def lost(self) -> None:
        """The connection is over: let go of everything. Not called from within the core."""
        if self.ended:
            return
        refused = self.closing and self.client is None
        if self.client is not None and not self.closing:
            self._tell_end(LOST)
        self.ended = self.closing = True
        self.runtime.spare(self)
        self.runtime.paused.pop(self, None)
        if not refused:
            self.runtime.connection_closed()
        if self.client is not None:
            self.runtime.sessions.outboxes.drop(self.client)
            self.runtime.blocked.pop(self.client, None)
            self.runtime.sessions.close(self.client)
            # The two hold each other: without this only the collector would free them.
            self.client = None
        self.shut()
