"""The request of a client: a WebSocket at ``/ws`` or events at ``/events``, for whom, and under which limits.

docs/reference/protocol.md 1, docs/reference/events.md.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from hashlib import sha256
from time import perf_counter
from typing import Any, cast
from urllib.parse import parse_qs

from ...core.auth.grants import Principal
from ...core.auth.tokens import is_token
from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.delivery.wire import Terms, terms_of
from ...core.events.framing import encode_event
from ...core.events.request import EVENTS_PATH, EVENTS_TYPE, EventsRequest, opening, parse_events_request
from ...core.mqtt.packets import ConnectPacket
from ...core.mqtt.session import MqttSession
from ...core.protocol.codec import JSON, SSE, STREAM, SUBPROTOCOLS, Form, encode
from ...core.protocol.errors import Close, InvalidMessage, Refused
from ...core.protocol.messages import Connect, Subscribe
from ...core.protocol.rest import encode_body
from ...core.websocket.frames import FrameReader
from ...core.websocket.handshake import BadRequest, Request, accept_response
from ...core.websocket.permessage_deflate import negotiate
from ...core.wires.compression import accepts_gzip
from ...core.wires.registry import wire_of
from ...listen_address import Listener
from ..plain_http.call import bearer_token
from ..runtime.runtime import Runtime, now
from .client_socket import ClientSocket
from .incoming import Incoming
from .mqtt.stream import MqttLink, MqttStream
from .posted_frames import PostedFrames

MQTT_PATH, MQTT_SUBPROTOCOL = "/mqtt", "mqtt"
"""Where a WebSocket speaks MQTT, and the subprotocol that says so (5: 6)."""

POLL_MS = 25_000
"""How long a poll is held while there is nothing to tell; a session whose client asks nothing for twice that ends."""

_MAY_BE_GZIP = "Vary: Accept-Encoding\r\n"
_GZIP = f"Content-Encoding: gzip\r\n{_MAY_BE_GZIP}"

ECHO_BYTES_MAX = 16 << 20
"""The message limit of the echo path, for conformance suites."""


class Handshake(Incoming):
    """The part of a client's connection that answers its request, and makes the client known."""

    __slots__ = ("fd", "socket")

    fd: int
    socket: ClientSocket[Any]

    @property
    def listener(self) -> Listener:
        """The port over which the peer came."""
        return self.socket.listener

    @abstractmethod
    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes of the frames (-1: it is broken)."""

    @abstractmethod
    def write_out(self, data: bytes) -> None:
        """Send bytes, behind what waits."""

    @abstractmethod
    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` when the socket takes bytes again, or no more."""

    @abstractmethod
    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; how many it took, -1 when it is broken."""

    @abstractmethod
    def lost(self) -> None:
        """The connection is over."""

    def upgrade(self, request: Request) -> None:
        """Answer the request, and begin with frames; raises BadRequest."""
        settings = self.runtime.settings
        self.echoing = settings.echo and request.path == "/echo"
        if not self.echoing and request.path != "/ws":
            raise BadRequest(404, "This is the client port of Fastpath: open a WebSocket at /ws.")
        self.address = self.runtime.access.check(request, self.address)
        form = next((SUBPROTOCOLS[name] for name in request.subprotocols if name in SUBPROTOCOLS), None)
        subprotocol = next((name for name in request.subprotocols if name in SUBPROTOCOLS), None)
        listener = self.listener
        offers = request.headers.get("sec-websocket-extensions", "") if listener.deflate else ""
        window_bits, extension = negotiate(offers) or (0, "") if offers else (0, "")
        response = accept_response(request, subprotocol, extension)
        rest = self.head[request.head_bytes :]
        self.head = b""
        bytes_max = ECHO_BYTES_MAX if self.echoing else self.runtime.command_bytes_max
        self.reader = FrameReader(bytes_max, deflate=window_bits > 0)
        terms = self._terms(form or JSON, window_bits, listener.deflate if window_bits else 0)
        if self.echoing:
            self.client = Client(self, self.fd, False, Principal(None, False, ()), terms)
            self.runtime.spare(self)
            self.write_out(response)
        else:
            # The socket is opened and closed with a code: a browser tells nothing of a refused upgrade.
            token = _query_token(request)
            refused = self._open(token, terms, direct=self.socket.direct)
            self._tell_opened(request, token, refused)
            self.write_out(response)
            if refused is not None:
                self.close(refused.code, f"{refused.code.label}: {refused.reason}")
        if rest:
            self.frames(rest)

    def upgrade_mqtt(self, request: Request) -> None:
        """Answer a request for a WebSocket that is to speak MQTT; raises BadRequest."""
        if request.is_upgrade and MQTT_SUBPROTOCOL not in request.subprotocols:
            raise BadRequest(400, "MQTT over a WebSocket has the subprotocol mqtt.")
        self.address = self.runtime.access.check(request, self.address)
        response = accept_response(request, MQTT_SUBPROTOCOL)
        rest, self.head = self.head[request.head_bytes :], b""
        self.reader = FrameReader(self.runtime.command_bytes_max)
        if self.send_now(response) != len(response):
            self.runtime.loop.call_soon(self.lost)
            return
        self.speak_mqtt(framed=True)
        if rest:
            self.received(rest)

    def speak_mqtt(self, *, framed: bool) -> None:
        """From now on the connection speaks MQTT; over a WebSocket it is ``framed``."""
        self.mqtt = self.stream = MqttStream(self.runtime, cast(MqttLink, self), framed=framed)
        if self.runtime.mqtt is not None:
            self.runtime.mqtt.came(self.mqtt)

    def admit_mqtt(self, packet: ConnectPacket) -> None:
        """Let a client of MQTT in: its password is its token, or that of a user, which is checked first."""
        given = (packet.password or b"").decode(errors="replace")
        passwords = self.runtime.passwords
        if passwords is None or not packet.user or not given or is_token(given):
            self._admit_mqtt(given, None)
            return
        self.hold(PauseReason.ASKED, True)
        passwords.check(packet.user, given, self.address, self._password_checked)

    def _password_checked(self, token: str, refused: Refused | None) -> None:
        if not self.ended and not self.closing:
            self.hold(PauseReason.ASKED, False)
            self._admit_mqtt(token, refused)

    def _admit_mqtt(self, token: str, refused: Refused | None) -> None:
        """Let a client of MQTT in with this token, unless it is refused already."""
        mqtt, table = self.mqtt, self.runtime.mqtt
        assert mqtt is not None and table is not None
        terms = self._terms(mqtt.talk.form)
        if refused is None:
            refused = self._open(token, terms, direct=False)
        else:
            self.client = self._stranger(terms)
        # CONNECT, as those see it who are told of requests.
        request = Request("CONNECT", MQTT_PATH, MQTT_PATH, "", "MQTT", {"user-agent": mqtt.talk.version}, 0)
        self._tell_opened(request, token, refused)
        if refused is not None:
            self.close(refused.code, f"{refused.code.label}: {refused.reason}")
            return
        assert self.client is not None
        # Where no claims say who it is a hook says so later: until then it is the bearer of its token.
        principal = self.client.principal
        unknown = self.runtime.asks is not None and principal.claims is None
        owner = f"?{sha256(token.encode()).hexdigest()}" if unknown else principal.user
        table.take(mqtt, owner, self._begin_mqtt)
        if not mqtt.talk.begun and not self.closing:
            self.hold(PauseReason.TAKING, True)  # at most as long as a handshake may take

    def _begin_mqtt(self, session: MqttSession, present: bool, missed: str) -> None:
        """The client's session is here, maybe by a message of another worker: a fault is this client's alone."""
        if self.mqtt is None or self.closing or self.ended:
            return
        self.hold(PauseReason.TAKING, False)
        self.fresh = False
        self.runtime.spare(self)
        try:
            self.mqtt.talk.begin(session, present=present, missed=missed)
        except Exception as error:
            self.failed(error)

    def _terms(self, form: Form, window_bits: int = 0, deflate_bytes: int = 0) -> Terms:
        return terms_of(wire_of(form, window_bits, deflate_bytes), self.listener.batch_ms, self.listener.batch_bytes)

    def _stranger(self, terms: Terms) -> Client:
        """Somebody who may not come, as who is told of it sees him."""
        return Client(self, self.fd, False, Principal(None, False, ()), terms, self.address)

    def _open(self, token: str, terms: Terms, *, direct: bool) -> Refused | None:
        """Make the client known; or the reason why it may not come."""
        try:
            self.client = self.runtime.sessions.open(self, self.fd, direct, terms, token, self.address, now())
        except Refused as error:
            self.client = self._stranger(terms)
            return error
        return None

    def _tell_opened(self, request: Request, token: str, refused: Refused | None) -> None:
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

    def begin_stream(self, request: Request) -> None:
        """Answer a request that brings a stream; raises BadRequest."""
        if request.path == EVENTS_PATH:
            self._begin_events(request)
        else:
            self._begin_session(request)

    def _begin_session(self, request: Request) -> None:
        """Answer a request for a session over HTTP: what a WebSocket would bring is its stream, what would be said over
        it is posted; raises BadRequest. Who may not come is told so by the stream, as over a WebSocket."""
        self.address = self.runtime.access.check(request, self.address)
        self.head = b""
        terms = self._terms(STREAM)
        token = bearer_token(request) or _query_token(request)
        refused = self._open(token, terms, direct=self.socket.direct)
        self.session = PostedFrames(self.runtime.http.begin_session(self.runtime.workers.number, self))
        self._tell_opened(request, token, refused)
        welcome = encode_event(encode_body(session_terms(self.runtime, self.session.id), JSON), "session")
        self.write_out(_events_head(request, self.runtime.access.origins is not None) + welcome)
        if refused is not None:
            self.close(refused.code, f"{refused.code.label}: {refused.reason}")

    def _begin_events(self, request: Request) -> None:
        """Answer a request for events, which asks for all that its stream will ever bring; raises BadRequest.

        Who may come back is told so by the stream, as a browser gives up for good at any other answer; who may not
        gets a status.
        """
        try:
            asked = parse_events_request(request.query, request.headers.get("last-event-id", ""))
        except InvalidMessage as error:
            raise BadRequest(400, f"This is no request for events: {error.reason}.") from None
        self.address = self.runtime.access.check(request, self.address)
        self.head = b""
        terms = self._terms(SSE)
        token = bearer_token(request) or _query_token(request)
        refused = self._open(token, terms, direct=False)
        if refused is not None and refused.code >= Close.BAD_MESSAGE:
            self.client = None
            raise BadRequest(401, f"{refused.code.label}: {refused.reason}")
        self._tell_opened(request, token, refused)
        offered = self.listener.deflate  # 0: compression is not for this port
        deflate_bytes = offered if accepts_gzip(request.headers.get("accept-encoding", "")) else 0
        self.stream = stream = self.runtime.events.open(asked.subjects, asked.known, deflate_bytes)
        coding = (_GZIP if deflate_bytes else _MAY_BE_GZIP) if offered else ""
        head = _events_head(request, self.runtime.access.origins is not None, coding)
        if (begun := stream.begin(self.send_now, head, opening(asked))) < 0:
            self.runtime.loop.call_soon(self.lost)
            return
        if not begun:
            self.await_writable(True)
        if refused is not None:
            self.close(refused.code, f"{refused.code.label}: {refused.reason}")
            return
        self.runtime.spare(self)
        self._ask(asked, request.headers.get("user-agent", ""))

    def _ask(self, asked: EventsRequest, program: str) -> None:
        """Have the commands done that the request stands for; in turns, where many come at once."""
        scheduler = self.runtime.scheduler
        if scheduler.spent:
            scheduler.later(partial(self._ask_now, asked, program))
            return
        began = perf_counter()
        self._ask_now(asked, program)
        scheduler.spend(perf_counter() - began)

    def _ask_now(self, asked: EventsRequest, program: str) -> None:
        client, (subjects, history, conflation, slow, since, _) = self.client, asked
        if client is None or self.closing:
            return
        subscribe = Subscribe(id=1, subjects=subjects, history=history, conflation=conflation, slow=slow, since=since)
        for command in (Connect(id=0, client=program), subscribe):
            self.runtime.sessions.receive(client, encode(command, JSON), now())
        self.runtime.end()


def session_terms(runtime: Runtime, number: str) -> dict[str, Any]:
    """What the client of a session over HTTP is told first: its id, and how it is kept."""
    return {
        "session": number,
        "heartbeat_ms": runtime.settings.ping_seconds * 1000,
        "poll_ms": POLL_MS,
        "frame_bytes": runtime.command_bytes_max,
    }


def _query_token(request: Request) -> str:
    return parse_qs(request.query).get("token", [""])[-1] if "token=" in request.query else ""


def _events_head(request: Request, restricted: bool, coding: str = "") -> bytes:
    """The head of a stream: no proxy may keep, change or hold back any of it; it ends with the connection."""
    origin = request.headers.get("origin", "*") if restricted else "*"
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS_TYPE}\r\nCache-Control: no-store, no-transform\r\n{coding}"
        f"X-Accel-Buffering: no\r\nAccess-Control-Allow-Origin: {origin}\r\nVary: Origin\r\nConnection: close\r\n\r\n"
    ).encode("latin-1")
