"""HTTP/1.1 on a connection of a client port: requests in, one after the other, each answered before the next is read.

Every head goes through the strict reader that the WebSocket's goes through (core/websocket/handshake.py); bodies and
answers are h11's. docs/explain/decisions/0023-http-on-client-ports.md says why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from itertools import repeat
from time import perf_counter
from typing import Protocol

import h11

from ...core.delivery.link import PauseReason
from ...core.events.lines import LINES_TYPES
from ...core.events.request import STREAMS
from ...core.protocol.errors import FastpathError
from ...core.protocol.rest import form_of
from ...core.websocket.handshake import BadRequest, Request, parse_request
from ...core.websocket.request_body import CHUNKED, body_length, check_expectation, too_large
from ...listen_address import Listener
from ..runtime.component import Endpoint, Methods
from ..runtime.connection_log import http_closed, request_refused
from ..runtime.runtime import Runtime, now
from ..runtime.scheduler import LARGE_BYTES, PIECE_BYTES, TURN_SECONDS
from .answers import HttpAnswer, phrase, refused_by, standing_headers
from .call import Call

IDLE_SECONDS = 75
"""Seconds that a connection is kept without a request: longer than the minute of most proxies and pools in front."""

TRANSFER_SECONDS = 60
"""Seconds that a body may take to come, or an answer to be read."""

REQUESTS_MAX = 10_000
"""Requests on one connection: a worker's share of callers is dealt out anew now and then."""

HALF_CLOSED_SECONDS = 1
"""Seconds that an answer may take to which the caller has said its end: it may read on, or be gone, in which case
nobody need go on for it."""

WRITE_BYTES = 64 << 10
"""Handed to the socket at once."""

AHEAD_BYTES = 8192
"""Read of further requests while one is answered, so that the end of a caller who has gone is seen; then no more."""

CHUNK_LINE_BYTES_MAX = 8192
"""Bytes of a chunk's length, and of the trailers: h11 waits for the end of these, the head being whole when it gets
it."""

CHUNKS_MAX = 10_000
"""Chunks of one body: each costs some ten microseconds, however small it is."""

BODY_EVENTS = 64
"""Chunks that are read between two looks at the clock."""

PREFLIGHT_SECONDS = 600
"""Seconds that a browser may remember what it may send."""

_NONE_HERE = (
    "There is nothing here. This is the client port of Fastpath: open a WebSocket at /ws, or ask {} (docs: rest.md)."
)

log = logging.getLogger("fastpath.http")


class ExchangeSocket(Protocol):
    """The object that has the socket (edge/clients/connection.py)."""

    ended: bool
    held: int

    @property
    def listener(self) -> Listener:
        """The port over which the peer came."""

    def send_now(self, data: bytes | memoryview) -> int:
        """Hand bytes to the socket; how many it took, -1 when it is broken."""

    def await_writable(self, wanted: bool) -> None:
        """Call ``writable`` of the exchange when the socket takes bytes again, or no more."""

    def hold(self, why: int, held: bool) -> None:
        """Read nothing while there is a reason."""

    def begin_stream(self, request: Request) -> None:
        """Begin a stream: from here on there are only events on the connection. Raise BadRequest, and then nothing was
        said."""

    def begin_socket(self, request: Request, data: bytes) -> None:
        """Begin with frames; ``data`` is the head, and what came behind it. Raise as ``begin_stream`` does."""

    def part(self) -> None:
        """End, so that what was said is read before; nothing more is said or heard."""

    def lost(self) -> None:
        """Note that the connection is over."""

    def expire(self) -> None:
        """Act on a deadline that has passed."""


class Phase(Enum):
    """The phase of an exchange."""

    IDLE = "no byte of a request is here"
    HEAD = "a part of a head is here"
    BODY = "a body is being read"
    ANSWERING = "an endpoint works on the answer"
    WRITING = "the answer is being written"
    PARTED = "nothing more is said or heard"


class Exchange:
    """The course of requests and answers on one connection."""

    def __init__(self, runtime: Runtime, carrier: ExchangeSocket, peer: str) -> None:
        self.number = runtime.http.number()
        self._runtime = runtime
        self._carrier = carrier
        self._peer = peer
        self._since = now()
        self._phase = Phase.IDLE
        self._buffer = b""
        self._requests = 0
        self._call: Call | None = None
        self._answer: HttpAnswer | None = None
        self._asking = False
        self._out = memoryview(b"")
        self._ends = self._half_closed = False
        self._forget()

    def _forget(self) -> None:
        """Begin with no request."""
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=CHUNK_LINE_BYTES_MAX)
        self._request: Request | None = None
        self._address = self._peer
        self._methods: Methods = {}
        self._lines = False
        self._left = 0  # of the body, or CHUNKED
        self._body = bytearray()
        self._chunks = 0
        self._bodiless = False  # what h11 knows to be answered without a body
        self._fed = b""
        self._before = b""
        self._hungry = True

    # Bytes in

    def received(self, data: bytes) -> None:
        """Take bytes that came."""
        self._buffer += data
        if self._phase is Phase.ANSWERING and len(self._buffer) > AHEAD_BYTES:
            self._carrier.hold(PauseReason.ANSWERING, True)
        scheduler = self._runtime.scheduler
        if len(self._buffer) <= PIECE_BYTES:
            self._go_on()
        elif len(self._buffer) >= LARGE_BYTES or scheduler.spent:  # so many that their turns would be long together
            self._wait_for_turn()
        else:
            began = perf_counter()
            self._go_on()
            scheduler.spend(perf_counter() - began)

    def _wait_for_turn(self) -> None:
        if not self._carrier.held & PauseReason.TURN:
            self.hold(True, PauseReason.TURN)
            self._runtime.scheduler.later(self._take_turn)

    def _go_on(self) -> None:
        """Read and answer as much as a turn may take."""
        due = perf_counter() + TURN_SECONDS
        try:
            while not self._carrier.held and self._step():
                if (self._buffer or not self._hungry) and perf_counter() >= due:
                    self._wait_for_turn()
                    return
        except BadRequest as error:
            self._turn_away(error)
        except h11.RemoteProtocolError as error:
            self._turn_away(BadRequest(error.error_status_hint, f"This is no HTTP: {error}."))
        except Exception:
            log.exception("fault while reading a request of %s", self._peer)
            self._turn_away(BadRequest(500, "A fault of the server; try again."))

    def _take_turn(self) -> None:
        """Go on, in a turn of its own."""
        if self._phase is not Phase.PARTED:
            self._carrier.hold(PauseReason.TURN, False)
            self._go_on()
            self._runtime.end()

    def hold(self, held: bool, why: int) -> None:
        """Hold while there is a reason (core.delivery.link.PauseReason): neither read nor handle what was read."""
        if self._phase is Phase.PARTED:
            return
        self._carrier.hold(why, held)
        if held or self._carrier.held:
            return
        if len(self._buffer) > PIECE_BYTES:
            self._wait_for_turn()
        else:
            self._runtime.loop.call_soon(self._go_on)

    def _step(self) -> bool:
        """Do one thing with what is here; whether there may be more to do. Raises for what is refused."""
        if self._phase in (Phase.IDLE, Phase.HEAD):
            return self._read_head()
        return self._phase is Phase.BODY and self._read_body()

    def _enter(self, phase: Phase, seconds: float = 0.0) -> None:
        """Enter a phase, for so many seconds at most."""
        self._phase = phase
        if seconds:
            self._runtime.expect(self._carrier, seconds)
        else:
            self._runtime.spare(self._carrier)

    def _read_head(self) -> bool:
        if not self._buffer:
            return False
        request = parse_request(self._buffer, self._runtime.settings.head_bytes_max)
        if request is None:
            if self._phase is Phase.IDLE:
                self._enter(Phase.HEAD, self._runtime.settings.handshake_seconds)
            return False
        data = self._buffer
        head, self._buffer = data[: request.head_bytes], data[request.head_bytes :]
        self._request = request
        self._requests += 1
        self._runtime.http.count()
        streams = request.path in STREAMS and request.method == "GET"
        if streams or request.is_upgrade:  # a proxy may ask for these where others were answered before
            self._runtime.expect(self._carrier, self._runtime.settings.handshake_seconds)
            if streams:
                self._carrier.begin_stream(request)
            else:
                self._buffer = b""
                self._carrier.begin_socket(request, data)
            self._runtime.http.end(self._carrier)
            return False
        self._enter(Phase.BODY, TRANSFER_SECONDS)
        self._h11.receive_data(head.lstrip(b"\r\n"))
        self._h11.next_event()
        self._bodiless = request.method == "HEAD"
        self._admit(request)
        if self._phase is Phase.BODY and self._h11.they_are_waiting_for_100_continue and not self._buffer:
            self._say(self._h11.send(h11.InformationalResponse(status_code=100, headers=[])))
        return True

    def _admit(self, request: Request) -> None:
        """Look at a head, before anything of its body is read; raises BadRequest."""
        self._address = self._runtime.access.check(request, self._peer)
        self._left = body_length(request, self._runtime.command_bytes_max)
        if self._runtime.broker.admission.full:
            self._runtime.broker.counters.limit("memory")
            raise BadRequest(503, "The server's memory is full; retry later.")
        endpoints, self._lines = self._runtime.http.find(request.path)
        if endpoints is None:
            raise BadRequest(404, _NONE_HERE.format(", ".join(self._runtime.http.by_path)))
        self._methods = endpoints
        if request.method == "OPTIONS" and not self._left:
            self._reply(HttpAnswer(204, headers=(("Allow", self._allowed()), *self._preflight(request))))
            return
        if self._endpoint(request) is None:
            raise BadRequest(405, f"{request.path} is asked by {self._allowed()}.", (("Allow", self._allowed()),))
        check_expectation(request)
        if request.method != "POST":
            if self._left:
                raise BadRequest(400, f"A {request.method} has no body.")
        elif "content-length" not in request.headers and not self._left:
            raise BadRequest(411, "Say how long the body is: Content-Length, or Transfer-Encoding: chunked.")
        else:
            self._check_type(request.headers.get("content-type", ""))

    def _check_type(self, content_type: str) -> None:
        """Raise BadRequest for a body that is not what the endpoint takes."""
        assert self._request is not None
        if self._request.headers.get("content-encoding", "identity").lower() != "identity":
            as_it_is = (("Accept-Encoding", "identity"),)
            raise BadRequest(415, "A body is sent as it is, not compressed: leave out Content-Encoding.", as_it_is)
        if not self._lines:
            if form_of(content_type) is None:
                raise BadRequest(415, "A body is application/json or application/msgpack: say which by Content-Type.")
        elif self._left and content_type.partition(";")[0].strip().lower() not in LINES_TYPES:
            raise BadRequest(415, f"A body is lines of JSON: say so by Content-Type, {' or '.join(LINES_TYPES)}.")

    def _endpoint(self, request: Request) -> Endpoint | None:
        return self._methods.get("GET" if request.method == "HEAD" else request.method)

    def _allowed(self) -> str:
        return ", ".join([*self._methods, *(["HEAD"] if "GET" in self._methods else []), "OPTIONS"])

    def _read_body(self) -> bool:
        if self._left and self._hungry:
            if not self._buffer:
                return False
            take = self._buffer if self._left == CHUNKED else self._buffer[: self._left]
            self._buffer = self._buffer[len(take) :]
            self._before, self._fed = (self._before + self._fed)[-4:], take
            if self._left != CHUNKED:
                self._left -= len(take)
            self._h11.receive_data(take)
            self._hungry = False
        for _ in range(BODY_EVENTS):
            event = self._h11.next_event()
            if isinstance(event, h11.Data):
                self._body += event.data
                self._chunks += event.chunk_start
                if self._chunks > CHUNKS_MAX:
                    raise BadRequest(413, f"The body has over {CHUNKS_MAX} chunks: send larger ones.")
                if len(self._body) > self._runtime.command_bytes_max:
                    raise too_large(self._runtime.command_bytes_max)
            elif isinstance(event, h11.EndOfMessage):
                self._end_body(event)
                self._ask()
                return True
            else:
                self._hungry = True
                return bool(self._buffer)
        return True

    def _end_body(self, event: h11.EndOfMessage) -> None:
        """Take back what came behind a chunked body; raises BadRequest for an end that others might not see."""
        if self._left != CHUNKED:
            return
        behind, _ = self._h11.trailing_data
        read = self._before + self._fed[: len(self._fed) - len(behind)]
        if event.headers or not read.endswith(b"\r\n\r\n"):
            raise BadRequest(400, "A chunked body ends with an empty chunk and CR LF, without trailers.")
        self._buffer = behind + self._buffer

    # The answer

    def _ask(self) -> None:
        """Let the endpoint answer; nothing more is read before it has."""
        request = self._request
        assert request is not None
        self._enter(Phase.ANSWERING)
        self._asking = True
        try:
            call = self._call = Call(self._runtime, self, request, self._address, bytes(self._body))
            self._body = bytearray()
            self.spend(0)
            endpoint = self._endpoint(request)
            assert endpoint is not None
            call.run(endpoint, call)
        except FastpathError as error:
            self._answer = refused_by(error)
        finally:
            self._asking = False
        if self._answer is not None:
            self._reply(self._answer)

    def spend(self, publications: int) -> None:
        """Count a request, or what it publishes, against the rates of a client."""
        guard = self._runtime.sessions.guard
        if guard is not None and guard.spend(self, 0 if publications else 1, publications, now()):
            self.hold(True, PauseReason.RATE)

    def publishes(self, subjects: Sequence[str]) -> None:
        """Count what it publishes against the rates of its subjects."""
        has_rates, rates = self._runtime.broker.interest.options.rates, self._runtime.sessions.publish_rates
        if has_rates and rates.spend(self, zip(subjects, repeat(1)), now()):
            self.hold(True, PauseReason.RATE)

    @property
    def listener(self) -> Listener:
        """Listener where the connection came in."""
        return self._carrier.listener

    def is_waiting_for(self, call: Call) -> bool:
        """Return whether the call is still to be answered."""
        return call is self._call and self._answer is None and self._phase is Phase.ANSWERING

    def answered(self, call: Call, answer: HttpAnswer) -> None:
        """Take an endpoint's answer, given at once or later."""
        if self._asking and self._answer is None:
            self._answer = answer
        elif self.is_waiting_for(call):
            self._answer = answer
            self._runtime.loop.call_soon(self._answer_late)

    def _answer_late(self) -> None:
        if self._answer is None or self._phase is not Phase.ANSWERING:
            return
        try:
            self._reply(self._answer)
        except Exception:
            log.exception("fault while answering %s", self._peer)
            self._carrier.lost()
        self._go_on()

    def _turn_away(self, error: BadRequest) -> None:
        """Refuse a request that no endpoint has seen, and its connection: where the next one begins is not sure."""
        if self._phase in (Phase.WRITING, Phase.PARTED):
            self._runtime.loop.call_soon(self._carrier.lost)
            return
        for told in self._runtime.connection_listeners:
            told.rejected(self._address, error.reason, status=error.status, request=self._request)
        request_refused(self._address, error.status, error.reason)
        self._runtime.broker.counters.connections_refused += 1
        self._reply(refused_by(error))

    def _reply(self, answer: HttpAnswer) -> None:
        """Write the answer: behind the log, and what others have been told before."""
        self._runtime.end()
        request, self._call, self._answer = self._request, None, None
        headers = [*standing_headers(answer), *(self._cors(request) if request is not None else ())]
        ends = answer.ends or self._requests >= REQUESTS_MAX or (self._half_closed and not self._buffer)
        if ends:
            headers.append(("Connection", "close"))
        data = self._h11.send(h11.Response(status_code=answer.status, reason=phrase(answer.status), headers=headers))
        if answer.body and not self._bodiless:
            data += self._h11.send(h11.Data(data=answer.body)) or b""
        data += self._h11.send(h11.EndOfMessage()) or b""
        self._ends = ends or self._h11.our_state is not h11.DONE
        self._forget()
        self._runtime.broker.counters.bytes_out += len(data)
        self._out = memoryview(data)
        self._enter(Phase.WRITING, TRANSFER_SECONDS)
        self._push()

    def _push(self) -> None:
        """Write as much as the socket takes."""
        while self._out:
            piece = self._out[:WRITE_BYTES]
            count = self._carrier.send_now(piece)
            if count < 0:
                self._runtime.loop.call_soon(self._carrier.lost)
                return
            self._out = self._out[count:]
            if count < len(piece):
                self._carrier.hold(PauseReason.ANSWERING, True)
                self._carrier.await_writable(True)
                return
        self._carrier.await_writable(False)
        if self._ends:
            self._phase = Phase.PARTED
            self._carrier.part()
            return
        self._enter(Phase.IDLE, IDLE_SECONDS)
        self._carrier.hold(PauseReason.ANSWERING, False)

    def writable(self) -> None:
        """Go on writing, as the socket takes bytes again."""
        if self._phase is Phase.WRITING:
            self._push()
            self._go_on()

    def _say(self, data: bytes | None) -> None:
        """Write a few bytes before the answer."""
        if data and self._carrier.send_now(data) != len(data):
            self._runtime.loop.call_soon(self._carrier.lost)

    # Pages of browsers

    def _cors(self, request: Request) -> list[tuple[str, str]]:
        """Return what lets a page read the answer; Access.check has refused the origins that may not."""
        origin = request.headers.get("origin")
        if origin is None or not origin.isascii() or not self._runtime.access.welcomes(origin):
            return [("Vary", "Origin")]
        return [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", "Retry-After"),
            ("Vary", "Origin"),
        ]

    def _preflight(self, request: Request) -> list[tuple[str, str]]:
        """Return what a page may send (the Fetch standard, 4.8)."""
        if "access-control-request-method" not in request.headers:
            return []
        return [
            ("Access-Control-Allow-Methods", self._allowed()),
            (
                "Access-Control-Allow-Headers",
                "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, traceparent",
            ),
            ("Access-Control-Max-Age", str(PREFLIGHT_SECONDS)),
        ]

    # Ends

    def ended_by_peer(self) -> bool:
        """Note that the caller says nothing more; return True if an answer that is under way is waited for."""
        if self._phase is not Phase.ANSWERING:
            return False
        self._half_closed = True
        self._carrier.hold(PauseReason.ANSWERING, True)
        self._runtime.expect(self._carrier, HALF_CLOSED_SECONDS)
        return True

    def expire(self) -> None:
        """End: nothing was asked for long, or what was begun did not come, or was not read, in time."""
        if self._phase is Phase.IDLE:
            self._phase = Phase.PARTED
            self._carrier.part()
        elif self._phase in (Phase.HEAD, Phase.BODY):
            self._runtime.broker.counters.limit("handshake")
            self._turn_away(BadRequest(408, "The request did not come in time."))
        else:
            self._carrier.lost()

    def gone(self) -> None:
        """Let go of the socket, which is closed."""
        self._phase = Phase.PARTED
        self._call = self._answer = None
        self._out = memoryview(b"")
        if self._runtime.sessions.guard is not None:
            self._runtime.sessions.guard.forget(self)
        self._runtime.sessions.publish_rates.forget(self)
        http_closed(self._runtime, self.number, self._peer, self._requests, self._since, now())
