"""One connection of a client port: upgrade, frames in, frames out, and how it ends."""

from __future__ import annotations

from typing import Any

from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.delivery.outbox import Effect
from ...core.protocol.errors import Close
from ...core.telemetry.counters import BY_CLIENT, LABELS, LOST, OTHER
from ...core.websocket.close_frames import close_payload, parse_close
from ...core.websocket.frames import CLOSE, SKIM, FrameReader, encode_frame
from ...core.websocket.handshake import BadRequest, Request, error_response, parse_request
from ..plain_http.exchange import Exchange
from ..runtime.connection_log import client_closed, request_refused
from ..runtime.runtime import Runtime, now
from .client_socket import ClientSocket
from .event_stream import EventStream
from .handshake import MQTT_PATH, Handshake
from .mqtt.stream import MqttStream
from .posted_frames import PostedFrames

GOODBYE_SECONDS = 5
"""How long a connection that was told goodbye may take to answer."""

SOCKET_PATHS = ("/ws", "/echo", "/mqtt")
"""What is asked for there is a WebSocket, and refused otherwise; all else is HTTP."""

REFUSED_SECONDS = 2
"""How long a refused request's socket is kept, so that what is still on its way does not reset it before the client
has read why."""


class ClientConnection(Handshake):
    """A client's connection over whichever socket it has; implements core.delivery.link.Link.

    States: a request head is read (``client`` is None), then commands (of a WebSocket) or nothing (``stream`` is there:
    it reads events), then ``closing``: what was said goodbye is written out and whatever comes is discarded until the
    socket ends.
    """

    __slots__ = ("writing",)

    def __init__(self, runtime: Runtime, socket: ClientSocket[Any], fd: int, address: str) -> None:
        self.runtime = runtime
        self.socket = socket
        self.writing = False
        self.fd = fd
        self.address = address
        self.client: Client | None = None
        self.reader: FrameReader | None = None
        self.mqtt: MqttStream | None = None
        self.session: PostedFrames | None = None
        self.stream: EventStream | MqttStream | None = None
        self.closing = False
        self.ended = False
        self.fresh = True
        self.echoing = False
        self.head = b""
        self.held = 0
        runtime.connection_opened()
        runtime.expect(self, runtime.settings.handshake_seconds)
        if "mqtt" in socket.listener.purposes:
            self.speak_mqtt(framed=False)

    # The socket (edge/clients/client_socket.py)

    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; how many it took, -1 when it is broken."""
        return self.socket.send(self, data)

    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""
        self.socket.await_writable(self, wanted)

    def await_readable(self, wanted: bool) -> None:
        """Read from the socket, or stop reading."""
        self.socket.await_readable(self, wanted)

    def readable(self) -> None:
        """The socket has bytes, or its end."""
        self.socket.receive(self)

    # Bytes in (edge/clients/incoming.py)

    def now(self) -> int:
        """The time in ms."""
        return now()

    def peer_closed(self, payload: bytes) -> None:
        """The client closes, or answers our close (RFC 6455 5.5.1)."""
        if self.mqtt is not None:
            self.mqtt.ended()
            self.runtime.loop.call_soon(self.lost)
            return
        if not self.closing:
            code, reason = parse_close(payload)
            self._left(code, reason, encode_frame(CLOSE, close_payload(code) if payload else b""))
        if self.client is None or self.client.queue is None:
            self.lost()

    def leave(self, code: int = Close.NORMAL, reason: str = "") -> None:
        """The client says that it has gone: of a session over HTTP (edge/runtime/component.py, PostedTo), or of MQTT.
        Nothing more is said to it."""
        if not self.closing:
            self._left(code, reason, b"")
            if self.mqtt is not None:
                self.mqtt.ended()
            self.runtime.loop.call_soon(self.lost)

    def _left(self, code: int, reason: str, answer: bytes) -> None:
        if self.client is not None:
            self.runtime.sessions.outboxes.leave(self.client, code, reason or "closed by the client")
        self.runtime.broker.counters.closed("by_client")
        self._tell_end(BY_CLIENT)
        self.closing = True
        if answer:
            self.write_out(answer)
        if self.client is not None:
            self.runtime.loop.call_soon(self.runtime.sessions.close, self.client)
        self.runtime.expect(self, GOODBYE_SECONDS)

    def broken(self) -> None:
        """The client broke the framing: what is wrong is said, and nothing more is read."""
        assert self.reader is not None and self.reader.error is not None and self.client is not None
        self.close(self.reader.error.code, f"{self.reader.error.code.label}: {self.reader.error.reason}")
        if self.client.queue is None:
            self._sent_all()

    def _sent_all(self) -> None:
        """End the connection, all being sent, if the peer's answer to the goodbye has come or would not be seen."""
        if self.stream is not None:
            if not self.stream.waits:
                if self.mqtt is not None:
                    self.mqtt.ended()
                self.socket.finish(self)
            return
        if self.reader is None or self.reader.error is not None:
            self.socket.finish(self)  # no frame of this peer is read any more
        elif self.reader.over:
            self.lost()

    # The request

    def requested(self, data: bytes) -> None:
        """Bytes of the request came, or of those that follow it over HTTP."""
        if self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].received(data)
            return
        self.head += data
        try:
            request = parse_request(self.head, self.runtime.settings.head_bytes_max)
            if request is None:
                return
            if request.path == MQTT_PATH:
                self.upgrade_mqtt(request)
            elif request.path in SOCKET_PATHS or request.is_upgrade:
                self.upgrade(request)
            else:
                self._speak_http()
        except BadRequest as error:
            for told in self.runtime.connection_listeners:
                told.rejected(self.address, error.reason, status=error.status)
            self._refuse(error.response(), error.status, error.reason)

    def _speak_http(self) -> None:
        """The request asks for no WebSocket: it is read anew, as are those that follow it (edge/plain_http)."""
        exchange = Exchange(self.runtime, self, self.address)
        self.runtime.http.begin(self, exchange)
        data, self.head = self.head, b""
        exchange.received(data)

    def still_answers(self) -> bool:
        """The peer says nothing more; whether it is answered for a moment all the same."""
        exchange = self.runtime.http.exchanges.get(self)
        return exchange is not None and exchange.ended_by_peer()

    def begin_socket(self, request: Request, data: bytes) -> None:
        """The request on a kept connection asks for a WebSocket (edge/plain_http/exchange.py, Carrier)."""
        self.head = data
        try:
            if request.path == MQTT_PATH:
                self.upgrade_mqtt(request)
            else:
                self.upgrade(request)
        except Exception:
            self.head = b""  # else it is what came behind the request and waits for its turn
            raise

    def part(self) -> None:
        """Nothing more is said or heard; the socket is kept for a moment, so that what was said is read before."""
        self.closing = True
        self.runtime.connection_closed()  # those who only read their refusal take no place
        if self.held:
            self.hold(~0, False)
        self.socket.finish(self)
        self.runtime.expect(self, REFUSED_SECONDS)

    def _refuse(self, response: bytes, status: int, reason: str) -> None:
        request_refused(self.address, status, reason)
        self.runtime.broker.counters.connections_refused += 1
        self.send_now(response)
        self.part()

    def over_limit(self) -> None:
        """The port is full: say so and let go."""
        self.runtime.broker.counters.limit("connections")
        for told in self.runtime.connection_listeners:
            told.rejected(self.address, "too many connections", status=503)
        if self.mqtt is not None:
            self._refuse(b"", 503, "too many connections")
            return
        response = error_response(503, "Too many connections; try again later.", [("Retry-After", "5")])
        self._refuse(response, 503, "too many connections")

    # Bytes out (core.delivery.link.Link; the outbox's way is core/delivery/outbox_performer.py)

    def write(self, data: bytes) -> None:
        """Send whole pieces; what the socket does not take goes to the queue."""
        if not self.closing:
            self.runtime.performer.write(self, data)

    def write_out(self, data: bytes) -> None:
        """Write bytes, also while the connection ends."""
        self.runtime.performer.write(self, data)

    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes: the rest waits."""
        self.runtime.performer.lag(self, data, sent)

    def writable(self) -> None:
        """The socket takes bytes again."""
        self.runtime.pass_time()
        if self.client is None and self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].writable()
        if not self.ended and self.client is not None and self._stream_flushed():
            self.runtime.performer.drain(self)

    # What the performer asks for (core.delivery.outbox_performer.Written)

    @property
    def bounded(self) -> bool:
        """Whether the bound on what waits holds."""
        return not (self.closing or self.echoing)

    def send(self, data: bytes | memoryview) -> int:
        """Hand whole pieces to the socket, or to the stream before it; how many bytes were taken."""
        stream = self.stream
        if stream is None:
            return self.socket.send(self, data)
        count = stream.send(self.send_now, data) if data else 0
        if stream.waits:
            self.await_writable(True)
        elif self.mqtt is not None and 0 <= count < len(data):
            self.await_writable(False)  # it waits for acknowledgements, and not for the socket
        return count

    def wait(self, data: bytes, sent: int) -> None:
        """These pieces wait: of MQTT some are said past the others."""
        if self.mqtt is not None:
            self.mqtt.overtake(data[sent:])

    def await_room(self, wanted: bool) -> None:
        """The client has a queue, to be written when the socket takes bytes again; or none any more."""
        client = self.client
        if client is None:
            return
        if wanted:
            self.runtime.blocked[client] = now()
            self.await_writable(True)
        else:
            self.runtime.blocked.pop(client, None)
            self.await_writable(self.stream is not None and self.stream.waits)
        if self.echoing and (wanted or not self.closing):
            self.hold(PauseReason.ECHOING, wanted)

    def end(self, effect: int) -> None:
        """The socket is broken, takes too little, or has taken what was said last."""
        if effect == Effect.LOST:
            self.lost()
        elif effect == Effect.OVERFLOW:
            self.close(*self.runtime.sessions.outboxes.overflow, self.runtime.settings.slow_close_seconds)
        else:
            self._sent_all()

    def _stream_flushed(self) -> bool:
        """Whether nothing of a piece of events is left that was begun; what waits behind it may follow."""
        stream, client = self.stream, self.client
        if stream is None or not stream.waits:
            return True
        count = stream.flush(self.send_now)
        if count < 0:
            self.lost()
        elif count and client is not None and client.queue is None:
            self.await_writable(False)
            if self.closing:
                self._sent_all()
        return count > 0

    # Ends

    def close(self, code: int, reason: str, seconds: float = GOODBYE_SECONDS) -> None:
        """Send what the core still has for the client, then a close frame; the socket ends when the client answers."""
        if self.closing:
            return
        client = self.client
        self.runtime.broker.counters.closed(reason.partition(":")[0])
        if self.mqtt is not None and not self.mqtt.talk.begun:
            if client is not None and client.number:
                self.runtime.loop.call_soon(self.runtime.sessions.close, client)
            self.client = None
            self._refuse(self.mqtt.farewell(code, reason), code, reason)
            return
        if client is None or (self.reader is None and self.stream is None and self.session is None):
            self._refuse(error_response(500, "A fault of the server; try again."), 500, reason)
            return
        if self.mqtt is not None and client.queue is not None:
            client.queue.keep_begun(client.terms.wire)  # it may wait for acknowledgements that do not come
        last = self.runtime.sessions.outboxes.end(client, code, reason)
        self._tell_end(LABELS.get(code, OTHER))
        self.closing = True
        if self.reader is not None and self.reader.deflate:
            self.reader.deflate = SKIM
        if self.held:
            self.runtime.paused.pop(self, None)
            self.hold(~PauseReason.TURN, False)  # for its answer to the close
        self.write_out(last)
        if self.mqtt is not None and client.queue is not None:
            self.writable()
        elif client.queue is None and (self.reader is None or self.stream is not None):
            self._sent_all()
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
        if self.session is not None:
            self.session.end()

    def expire(self) -> None:
        """A deadline passed: no command in time, or no answer to our close."""
        if self.closing:
            self.lost()
        elif self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].expire()
        elif self.mqtt is not None and self.mqtt.talk.connected and not self.mqtt.talk.begun:
            # It has said its first command in time: it is the server that keeps it waiting.
            if self.held & PauseReason.ASKED:
                self.close(Close.NOT_READY, "not_ready: its password cannot be checked at this moment")
            else:
                self.close(Close.OVERLOADED, "overloaded: its session cannot be had at this moment")
        elif self.client is None:
            self.runtime.broker.counters.limit("handshake")
            if self.mqtt is not None:
                self._refuse(b"", 408, "no CONNECT in time")
                return
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
        if self.session is not None:
            self.runtime.http.sessions.pop(self.session.id, None)
        if not refused:
            self.runtime.connection_closed()
        if self.mqtt is not None and self.runtime.mqtt is not None:
            self.runtime.mqtt.gone(self.mqtt, self.client)
        if self.client is not None:
            self.runtime.sessions.outboxes.drop(self.client)
            self.runtime.blocked.pop(self.client, None)
            self.runtime.sessions.close(self.client)
            # The two hold each other: without this only the collector would free them.
            self.client = None
        else:
            self.runtime.http.end(self)
        self.socket.shut(self)
