"""One connection of a client port: its request, what its client says and gets, and how it ends."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from ...core.auth.grants import Principal
from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.delivery.outbox import Effect
from ...core.delivery.wire import Terms
from ...core.events.request import EVENTS_PATH
from ...core.protocol.codec import JSON, MSGPACK, STREAM
from ...core.protocol.errors import Close, Refused
from ...core.telemetry.counters import BY_CLIENT, LABELS, LOST, OTHER
from ...core.websocket.close_frames import close_payload, parse_close
from ...core.websocket.frames import BINARY, CLOSE, PING, PONG, SKIM, TEXT, Event, FrameReader, encode_frame
from ...core.websocket.handshake import BadRequest, Request, accept_response, error_response, parse_request
from ...core.wires.registry import wire_of
from ...listen_address import Listener
from ..plain_http.exchange import Exchange
from ..runtime.component import PostedTo
from ..runtime.connection_log import client_closed, request_refused
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import LARGE_BYTES, PIECE_BYTES, TURN_SECONDS
from .client_socket import ClientSocket
from .client_stream import Stream
from .event_stream import EventStream, begin_events
from .handshake import (
    MQTT_PATH,
    MQTT_SUBPROTOCOL,
    check_mqtt,
    events_head,
    query_token,
    session_welcome,
    terms_over,
    token_of,
    websocket_opening,
)
from .mqtt.stream import MqttStream
from .posted_frames import ENDED, Done, PostedFrames

GOODBYE_SECONDS = 5
"""Seconds that a connection which was told goodbye may take to answer."""

SOCKET_PATHS = ("/ws", "/echo", "/mqtt")
"""Paths where a WebSocket is asked for, and all else is refused; on other paths it is HTTP."""

REFUSED_SECONDS = 2
"""Seconds for which a refused request's socket is kept, so that what is still on its way does not reset it before the
client has read why."""

ECHO_BYTES_MAX = 16 << 20
"""The message limit of the echo path, for conformance suites."""

log = logging.getLogger("fastpath.clients")


class ClientConnection:
    """A client's connection over whichever socket it has; implements core.delivery.link.Link.

    States: a request head is read (``client`` is None), then commands (of a WebSocket) or nothing (``stream`` is there:
    it reads events), then ``closing``: what was said goodbye is written out and whatever comes is discarded until the
    socket ends. What a ``stream`` hears, as packets of MQTT, goes there. ``held`` are the reasons, bits of PauseReason,
    for which nothing is read or handled; ``head`` is what has been read and not looked at yet, or the start of the
    request.
    """

    __slots__ = (
        *("address", "client", "closing", "echoing", "ended", "fd", "fresh", "head"),
        *("held", "reader", "runtime", "session", "socket", "stream", "writing"),
    )

    def __init__(self, runtime: Runtime, socket: ClientSocket[Any], fd: int, address: str) -> None:
        self.runtime = runtime
        self.socket = socket
        self.writing = False
        self.fd = fd
        self.address = address
        self.client: Client | None = None
        self.reader: FrameReader | None = None
        self.session: PostedFrames | None = None
        self.stream: Stream | None = None
        self.closing = False
        self.ended = False
        self.fresh = True
        self.echoing = False
        self.head = b""
        self.held = 0
        runtime.connection_opened()
        runtime.expect(self, runtime.settings.handshake_seconds)
        if "mqtt" in socket.listener.purposes:
            self.stream = MqttStream(runtime, self)

    # The socket (edge/clients/client_socket.py)

    @property
    def listener(self) -> Listener:
        """The port over which the peer came."""
        return self.socket.listener

    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; return how many it took, -1 when it is broken."""
        return self.socket.send(self, data)

    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""
        self.socket.await_writable(self, wanted)

    # The request

    def requested(self, data: bytes) -> None:
        """Take bytes of the request, or of those that follow it over HTTP."""
        if self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].received(data)
            return
        self.head += data
        try:
            request = parse_request(self.head, self.runtime.settings.head_bytes_max)
            if request is None:
                return
            if request.path in SOCKET_PATHS or request.is_upgrade:
                self.upgrade(request)
            else:
                self._speak_http()
        except BadRequest as error:
            for told in self.runtime.connection_listeners:
                told.rejected(self.address, error.reason, status=error.status)
            self._refuse(error.response(), error.status, error.reason)

    def _speak_http(self) -> None:
        """Read the request anew, as it asks for no WebSocket, and those that follow it (edge/plain_http)."""
        exchange = Exchange(self.runtime, self, self.address)
        self.runtime.http.begin(self, exchange)
        data, self.head = self.head, b""
        exchange.received(data)

    def still_answers(self) -> bool:
        """Return whether the peer, which says nothing more, is answered for a moment all the same."""
        exchange = self.runtime.http.exchanges.get(self)
        return exchange is not None and exchange.ended_by_peer()

    def begin_socket(self, request: Request, data: bytes) -> None:
        """Begin a WebSocket, which the request on a kept connection asks for (edge/plain_http/exchange.py, Carrier)."""
        self.head = data
        try:
            self.upgrade(request)
        except Exception:
            self.head = b""  # else it is what came behind the request and waits for its turn
            raise

    def part(self) -> None:
        """Say and hear nothing more; the socket is kept for a moment, so that what was said is read before."""
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
        """Say that the port is full, and let go."""
        self.runtime.broker.counters.limit("connections")
        for told in self.runtime.connection_listeners:
            told.rejected(self.address, "too many connections", status=503)
        if self.stream is not None:
            self._refuse(b"", 503, "too many connections")
            return
        response = error_response(503, "Too many connections; try again later.", [("Retry-After", "5")])
        self._refuse(response, 503, "too many connections")

    # How it begins

    def come_from(self, request: Request) -> None:
        """Find out where the request comes from; raises BadRequest. Nothing of its head is needed any more."""
        self.address = self.runtime.access.check(request, self.address)
        self.head = b""

    def upgrade(self, request: Request) -> None:
        """Answer a request for a WebSocket, and begin with frames; raises BadRequest."""
        rest = self.head[request.head_bytes :]
        if request.path == MQTT_PATH:
            self._upgrade_mqtt(request)
        else:
            self._upgrade(request)
        if rest and self._hears:
            self.frames(rest)

    def _upgrade(self, request: Request) -> None:
        self.echoing = self.runtime.settings.echo and request.path == "/echo"
        if not self.echoing and request.path != "/ws":
            raise BadRequest(404, "This is the client port of Fastpath: open a WebSocket at /ws.")
        self.come_from(request)
        bytes_max = ECHO_BYTES_MAX if self.echoing else self.runtime.command_bytes_max
        response, self.reader, terms = websocket_opening(request, self.listener, bytes_max)
        if self.echoing:
            self.client = Client(self, self.fd, False, Principal(None, False, ()), terms)
            self.runtime.spare(self)
            self.write_out(response)
            return
        # The socket is opened and closed with a code: a browser tells nothing of a refused upgrade.
        token = query_token(request)
        refused = self.open(token, terms, direct=self.socket.direct)
        self.tell_opened(request, token, refused)
        self.write_out(response)
        self.turn_away(refused)

    def _upgrade_mqtt(self, request: Request) -> None:
        """Begin a WebSocket whose frames have MQTT in them."""
        check_mqtt(request)
        self.come_from(request)
        response = accept_response(request, MQTT_SUBPROTOCOL)
        if self.send_now(response) == len(response):
            self.stream = MqttStream(self.runtime, self, FrameReader(self.runtime.command_bytes_max))
        else:
            self.runtime.loop.call_soon(self.lost)

    def begin_stream(self, request: Request) -> None:
        """Answer a request that brings a stream; raises BadRequest."""
        try:
            if request.path == EVENTS_PATH:
                begin_events(self, self.runtime, request)
            else:
                self._begin_session(request)
        except BadRequest:
            self.client = None
            raise

    def _begin_session(self, request: Request) -> None:
        """Answer a request for a session over HTTP: what a WebSocket would bring is its stream, what would be said over
        it is posted. Who may not come is told so by the stream, as over a WebSocket."""
        self.come_from(request)
        refused = self.join(request, token_of(request), terms_over(STREAM, self.listener), self)
        assert self.session is not None
        head = events_head(request, self.runtime.access.origins is not None)
        self.write_out(head + session_welcome(self.runtime, self.session.id))
        self.turn_away(refused)

    def join(self, request: Request, token: str, terms: Terms, posted_to: PostedTo) -> Refused | None:
        """Begin a session over HTTP, whose client posts to that; or the reason why it may not come."""
        refused = self.open(token, terms, direct=self.socket.direct)
        self.session = PostedFrames(self.runtime.http.begin_session(self.runtime.workers.number, posted_to))
        self.tell_opened(request, token, refused)
        return refused

    def open(self, token: str, terms: Terms, *, direct: bool = False, refused: Refused | None = None) -> Refused | None:
        """Make the client known, unless it is refused already; or return the reason why it may not come."""
        try:
            if refused is None:
                self.client = self.runtime.sessions.open(self, self.fd, direct, terms, token, self.address, now())
                return None
        except Refused as error:
            self.client = self._stranger(terms)
            return error
        self.client = self._stranger(terms)
        return refused

    def _stranger(self, terms: Terms) -> Client:
        """Return somebody who may not come, as who is told of it sees him."""
        return Client(self, self.fd, False, Principal(None, False, ()), terms, self.address)

    def tell_opened(self, request: Request, token: str, refused: Refused | None) -> None:
        """Tell who wants to know that the client has come, or why it may not."""
        runtime, client = self.runtime, self.client
        assert client is not None
        for told in runtime.connection_listeners:
            if refused is not None:
                reason = f"{refused.code.label}: {refused.reason}"
                told.rejected(self.address, reason, code=refused.code, request=request)
            else:
                told.opened(client, request)
        if runtime.asks is not None and refused is None:
            runtime.asks.opened(client, request, token)

    def turn_away(self, refused: Refused | None) -> bool:
        """Say goodbye to a client that is refused; return whether it is."""
        if refused is not None:
            self.close(refused.code, f"{refused.code.label}: {refused.reason}")
        return refused is not None

    def flow(self, stream: EventStream, head: bytes, events: bytes) -> bool:
        """Begin with the stream; return whether the socket is whole."""
        self.stream = stream
        begun = stream.begin(self.send_now, head, events)
        if begun < 0:
            self.runtime.loop.call_soon(self.lost)
        elif not begun:
            self.await_writable(True)
        return begun >= 0

    def settle(self) -> None:
        """Note that the client has said in time what it has to say."""
        self.fresh = False
        self.runtime.spare(self)

    # Bytes in

    @property
    def _hears(self) -> bool:
        """True if what comes is more than a request, and somebody takes it."""
        return self.reader is not None or (self.stream is not None and self.stream.hears)

    def received(self, data: bytes) -> None:
        """Take bytes that came; a fault of ours in handling them closes this client only. The caller ends the turn
        (Runtime.end)."""
        runtime, reader, client, size = self.runtime, self.reader, self.client, len(data)
        runtime.broker.counters.bytes_in += size
        try:
            if (
                size <= PIECE_BYTES
                and reader is not None
                and client is not None
                and not (self.held or self.head or reader.deflate or runtime.paused)
            ):
                client.alive = True
                self._handle(reader.feed(data))  # as ``frames`` would, at once: nearly all that comes comes so
            elif reader is not None or self._hears:
                self.frames(data)
            elif self.client is None and not self.closing:  # who reads a stream has said all
                self.requested(data)
        except Exception as error:
            self.failed(error)

    def failed(self, error: Exception) -> None:
        """End the connection for a fault of ours: the client comes back."""
        log.error("fault while handling %s", self.address, exc_info=error)
        self.close(Close.INTERNAL_ERROR, "internal_error: a fault of the server; reconnect")

    def frames(self, data: bytes) -> None:
        """Take frames that came after the request, or packets of MQTT."""
        paused = self.runtime.paused
        if self.reader is not None:
            self.heard()
        if self.held or (paused and self in paused):
            self.head += data  # it was on its way when reading stopped
        elif not self.head and len(data) <= PIECE_BYTES:
            self._take(data)
            if self._inflating and not self.held:
                self._wait_in_line()
        elif len(data) >= LARGE_BYTES or self.runtime.scheduler.spent:
            # So much, or so many have filled their sockets that their turns, one after another, would be long.
            self.head += data
            self.wait_for_turn()
        else:
            began = perf_counter()
            self._pieces(self.head + data)
            self.runtime.scheduler.spend(perf_counter() - began)

    def _take(self, data: bytes) -> None:
        """Handle a piece."""
        if self.reader is not None:
            self._handle(self.reader.feed(data))
        elif self.stream is not None:
            self.stream.received(data)

    def _pieces(self, data: bytes) -> None:
        """Handle as much as a turn may take; the rest waits for the next one, and nothing more is read meanwhile."""
        self.head = b""
        due = perf_counter() + TURN_SECONDS
        at, end = 0, len(data)
        while at < end and not self.ended:
            self._take(data[at : at + PIECE_BYTES])
            at += PIECE_BYTES
            if self._inflating or (at < end and (self.held or perf_counter() >= due)):
                self.head = data[at:]
                if not self.held and self._inflating:
                    self._wait_in_line()
                elif not self.held:
                    self.wait_for_turn()
                return

    @property
    def _inflating(self) -> bool:
        """True while a compressed message is not inflated yet."""
        return self.reader is not None and self.reader.inflating

    @property
    def _has_more(self) -> bool:
        """True while something of what was read waits."""
        return bool(self.head) or self._inflating

    def wait_for_turn(self) -> None:
        """Read and handle nothing more in this turn."""
        self.hold(PauseReason.TURN, True)
        self.runtime.scheduler.later(self._take_turn)

    def _take_turn(self) -> None:
        self.hold(PauseReason.TURN, False)
        self._go_on()

    def _wait_in_line(self) -> None:
        self.hold(PauseReason.TURN, True)
        self.runtime.scheduler.in_line(self._inflate)

    def _inflate(self) -> bool:
        """Have a turn at a message of which little may become much; return True if it needs another one.

        Connections have these one after the other, so that all that is held of them is one message and what each has
        sent.
        """
        self.hold(PauseReason.TURN, False)
        if self.held or self.ended or self.reader is None:
            return False
        due = perf_counter() + TURN_SECONDS
        try:
            events = self.reader.feed(b"")
            while not events and self.reader.inflating:
                if perf_counter() >= due:
                    self.hold(PauseReason.TURN, True)
                    return True
                events = self.reader.feed(b"")
            self._handle(events)
        except Exception as error:
            self.failed(error)
        if self._has_more and not (self.held or self.ended):
            self.wait_for_turn()
        self.runtime.end()
        return False

    def _handle(self, events: list[Event]) -> None:
        reader, client, runtime = self.reader, self.client, self.runtime
        assert client is not None
        moment = now()
        due = perf_counter() + TURN_SECONDS if len(events) > 1 else 0.0
        wanted = BINARY if client.form == MSGPACK else TEXT
        rest = iter(events)
        for opcode, payload in rest:
            if opcode == wanted and not (self.closing or self.echoing):
                runtime.sessions.receive(client, payload, moment)
                if self.fresh and (client.greeted or self.held) and not self.closing:
                    self.settle()
                if due and not self.held and not self.closing and perf_counter() >= due:
                    self.wait_for_turn()
                if self.held:
                    runtime.paused[self] = list(rest)
                    return
            elif opcode == CLOSE:
                self.peer_closed(payload)
                return
            elif self.closing:
                continue
            elif opcode == PING and not self.echoing:
                runtime.broker.send(client, encode_frame(PONG, payload))  # with all other answers of this turn
            elif opcode == PING:
                self.write(encode_frame(PONG, payload))
            elif self.echoing:
                if opcode != PONG:
                    self.write(_echo(client, opcode, payload))
            elif opcode == PONG:
                for told in runtime.ponged if payload else ():  # not to the server's own pings, which are empty
                    told(client, payload)
            else:
                kind = "binary" if wanted == BINARY else "text"
                self.close(Close.BAD_MESSAGE, f"bad_message: this subprotocol is made of {kind} frames")
        if reader is None:
            if self.session is not None:
                self.session.handled(0)
        elif reader.error is not None and not self.closing:
            # The framing is broken: what is wrong is said, and nothing more is read.
            self.close(reader.error.code, f"{reader.error.code.label}: {reader.error.reason}")
            if client.queue is None:
                self._sent_all()

    # What is posted to a session over HTTP

    def heard(self) -> None:
        """Note that the client has shown that it lives."""
        if self.client is not None:
            self.client.alive = True

    def posted(self, first: int, frames: list[bytes], done: Done) -> None:
        """Take frames that the client says over HTTP (edge/runtime/component.py, PostedTo)."""
        session, client, paused = self.session, self.client, self.runtime.paused
        if session is None or client is None or self.closing:
            done(ENDED)
            return
        self.heard()
        waits = self.held or self in paused
        new: list[Event] = [(TEXT, frame) for frame in session.accept(first, frames, bool(waits), done)]
        try:
            if waits:
                session.handled(len(paused.get(self, ())))  # a repetition of what is handled, or waits
            else:
                self._handle(new)
        except Exception as error:
            self.failed(error)

    def hold(self, why: int, held: bool) -> None:
        """Hold what comes: neither read nor handle what was read while there is a reason
        (core.delivery.link.PauseReason)."""
        if self.ended or (held and self.closing and why != PauseReason.TURN):
            return
        before, self.held = self.held, self.held | why if held else self.held & ~why
        if not before and self.held:
            self.socket.await_readable(self, False)
        elif before and not self.held and why != PauseReason.TURN and len(self.head) > PIECE_BYTES:
            self.held = PauseReason.TURN  # others may be let go at the same time, with as much
            self.runtime.scheduler.later(self._take_turn)
        elif before and not self.held:
            self.socket.await_readable(self, True)
            if why == PauseReason.TURN:
                return  # and it goes on at once
            if self._has_more or self in self.runtime.paused or (self.stream is not None and self.stream.held_back):
                self.runtime.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Handle what was read before the hold."""
        if self.ended or self.held:
            return
        try:
            if self.stream is not None:
                self.stream.go_on()
            events = self.runtime.paused.pop(self, None)
            if events is not None:
                self._handle(events)
            if self._hears and not (self.held or self.ended):
                if self._inflating:
                    self._wait_in_line()
                elif self.head:
                    self._pieces(self.head)
        except Exception as error:
            self.failed(error)
        self.runtime.end()

    # Bytes out (core.delivery.link.Link; the outbox's way is core/delivery/outbox_performer.py)

    def write(self, data: bytes) -> None:
        """Send whole pieces; what the socket does not take goes to the queue."""
        if not self.closing:
            self.runtime.performer.write(self, data)

    def write_out(self, data: bytes) -> None:
        """Write bytes, also while the connection ends."""
        self.runtime.performer.write(self, data)

    def lag(self, data: bytes, sent: int) -> None:
        """Have the rest wait, as the socket took only ``sent`` bytes."""
        self.runtime.performer.lag(self, data, sent)

    def writable(self) -> None:
        """Go on writing, as the socket takes bytes again."""
        self.runtime.pass_time()
        if self.client is None and self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].writable()
        if not self.ended and self.client is not None and self._stream_flushed():
            self.runtime.performer.drain(self)

    # What the performer asks for (core.delivery.outbox_performer.Written)

    @property
    def bounded(self) -> bool:
        """True if the bound on what waits holds."""
        return not (self.closing or self.echoing)

    def send(self, data: bytes | memoryview) -> int:
        """Hand whole pieces to the socket, or to the stream before it; return how many bytes were taken."""
        stream = self.stream
        if stream is None:
            return self.socket.send(self, data)
        count = stream.send(self.send_now, data) if data else 0
        if stream.waits:
            self.await_writable(True)
        elif 0 <= count < len(data):
            self.await_writable(False)  # it waits for acknowledgements, and not for the socket
        return count

    def wait(self, data: bytes, sent: int) -> None:
        """Have these pieces wait: of MQTT some are said past the others."""
        if self.stream is not None:
            self.stream.overtake(data, sent)

    def await_room(self, wanted: bool) -> None:
        """Await that the socket takes bytes again for a client's queue; or no more, as there is no queue any more."""
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
        """End the connection: the socket is broken, takes too little, or has taken what was said last."""
        if effect == Effect.LOST:
            self.lost()
        elif effect == Effect.OVERFLOW:
            self.close(*self.runtime.sessions.outboxes.overflow, self.runtime.settings.slow_close_seconds)
        else:
            self._sent_all()

    def _stream_flushed(self) -> bool:
        """Return whether nothing of a piece of events is left that was begun; what waits behind it may follow."""
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

    def peer_closed(self, payload: bytes) -> None:
        """Close with the client, or take its answer to our close (RFC 6455 5.5.1)."""
        if not self.closing:
            code, reason = parse_close(payload)
            self._left(code, reason, encode_frame(CLOSE, close_payload(code) if payload else b""))
        if self.client is None or self.client.queue is None:
            self.lost()

    def leave(self, code: int = Close.NORMAL, reason: str = "") -> None:
        """Let the client go, which says that it has gone: of a session over HTTP (edge/runtime/component.py, PostedTo),
        or of MQTT. Nothing more is said to the client."""
        if not self.closing:
            self._left(code, reason, b"")
            if self.stream is not None:
                self.stream.ended()
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

    def _sent_all(self) -> None:
        """End the connection, all being sent, if the peer's answer to the goodbye has come or would not be seen."""
        if self.stream is not None:
            if not self.stream.waits:
                self.stream.ended()
                self.socket.finish(self)
            return
        if self.reader is None or self.reader.error is not None:
            self.socket.finish(self)  # no frame of this peer is read any more
        elif self.reader.over:
            self.lost()

    def close(self, code: int, reason: str, seconds: float = GOODBYE_SECONDS) -> None:
        """Send what the core still has for the client, then a close frame; the socket ends when the client answers."""
        if self.closing:
            return
        client, stream = self.client, self.stream
        self.runtime.broker.counters.closed(reason.partition(":")[0])
        if stream is not None and not stream.begun:
            if client is not None and client.number:
                self.runtime.loop.call_soon(self.runtime.sessions.close, client)
            self.client = None
            self._refuse(stream.farewell(code, reason), code, reason)
            return
        if client is None or (self.reader is None and stream is None and self.session is None):
            self._refuse(error_response(500, "A fault of the server; try again."), 500, reason)
            return
        lags = stream is not None and stream.lags
        if lags and client.queue is not None:
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
        if lags and client.queue is not None:
            self.writable()
        elif client.queue is None and self.reader is None:
            self._sent_all()
        self.runtime.loop.call_soon(self.runtime.sessions.close, client)
        self.runtime.expect(self, seconds)

    def _tell_end(self, name: str) -> None:
        """Count the client's end, and tell the log; its subscriptions are still there."""
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
        """Act on a deadline that passed: no command in time, or no answer to our close."""
        stream = self.stream
        if self.closing:
            self.lost()
        elif self in self.runtime.http.exchanges:
            self.runtime.http.exchanges[self].expire()
        elif stream is not None and not stream.begun and (late := stream.late()) is not None:
            self.close(*late)
        elif self.client is None:
            self.runtime.broker.counters.limit("handshake")
            if stream is not None:
                self._refuse(b"", 408, "no CONNECT in time")
                return
            self._refuse(error_response(408, "No request in time."), 408, "no request in time")
        else:
            self.close(Close.HANDSHAKE_TIMEOUT, "handshake_timeout: no first command in time")

    def lost(self) -> None:
        """Let go of everything, as the connection is over. Not called from within the core."""
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
        if self.stream is not None:
            self.stream.gone(self.client)
        if self.client is not None:
            self.runtime.sessions.outboxes.drop(self.client)
            self.runtime.blocked.pop(self.client, None)
            self.runtime.sessions.close(self.client)
            # The two hold each other: without this only the collector would free them.
            self.client = None
        else:
            self.runtime.http.end(self)
        self.socket.shut(self)


def _echo(client: Client, opcode: int, payload: bytes) -> bytes:
    """Return the payload as it came, compressed as the client wants it."""
    own = client.terms.wire
    return wire_of(JSON if opcode == TEXT else MSGPACK, own.window_bits, own.deflate_bytes).message(payload)
