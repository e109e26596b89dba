"""The requests of sessions over HTTP but for the stream: what their clients post, and ask for (sessions.md)."""

from __future__ import annotations

from ...core.events.lines import LINES_TYPE
from ...core.events.request import EVENTS_TYPE, SESSION_PATH
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.rest import SESSION_NUMBER_MAX, read_count
from ..plain_http.answers import HttpAnswer, head_of, refusal
from ..plain_http.call import Call
from ..runtime.component import Offers
from ..runtime.runtime import Runtime
from .poll_connection import TOLD, Answered, PollAnswers, PollingClients
from .posted_frames import BUSY, ENDED, GAP, HANDLED
from .session_relay import SessionRelay

POLLING_MAX = 10_000
"""Clients of one process that poll: no socket of theirs counts as a connection while they ask nothing."""

POLL_PATH = "/session/poll"
_PREFIX = "/session/"
_CLOSE = "/close"

_POST, _POLL, _LEAVE = "post", "poll", "leave"


class SessionRequests:
    """The requests of clients of sessions over HTTP to one process: for its own sessions, and for other workers'."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._polling = PollingClients(lambda: int(runtime.awake.time * 1000))
        self.relay = SessionRelay(runtime, self._serve)
        self.offers = Offers(
            endpoints={SESSION_PATH: {"GET": _head_of_stream}, POLL_PATH: {"GET": self._poll}},
            lines={_PREFIX: {"POST": self._post, "DELETE": self._leave}},
            on_grid=self._polling.tick,
            figures=lambda: {"polling_clients": len(self._polling), "polls_held": self._polling.held},
        )

    # Endpoints

    def _post(self, call: Call) -> None:
        """Answer ``POST /session/<id>?n=…``, which says frames, and ``POST /session/<id>/close``, by which the client
        leaves."""
        session = call.request.path.removeprefix(_PREFIX)
        if session.endswith(_CLOSE):
            self._end(call, session.removesuffix(_CLOSE))
            return
        call.check_parameters("n")
        first = _count(call, "n", "say which frame of the session the first one is, from 1 on")
        self._ask(call, _POST, session, first, call.body)

    def _leave(self, call: Call) -> None:
        """Answer ``DELETE /session/<id>``, by which the client leaves."""
        self._end(call, call.request.path.removeprefix(_PREFIX))

    def _end(self, call: Call, session: str) -> None:
        call.check_parameters()
        self._ask(call, _LEAVE, session)

    def _poll(self, call: Call) -> None:
        """Answer ``GET /session/poll``, which begins a session; with ``session`` and ``ack`` it asks for what has
        come."""
        call.check_parameters("session", "ack")
        session = call.parameter("session")
        if call.request.method == "HEAD":
            call.answer(head_of(TOLD, LINES_TYPE))
        elif session is not None:
            self._ask(call, _POLL, session, _count(call, "ack", "say how many answers have arrived, from 1 on"))
        elif call.parameters("ack"):
            raise InvalidMessage("invalid", "ack goes with session: leave it away to begin one")
        elif len(self._polling) >= POLLING_MAX:
            self._runtime.broker.counters.limit("connections")
            raise InvalidMessage("not_ready", f"{POLLING_MAX} clients poll here already; try again later")
        else:
            answers = PollAnswers(self._runtime, self._polling, call.address, call.listener)
            answers.begin(call.request, call.token, lambda status, body: call.answer(_told(status, body)))

    # Sessions

    def _ask(self, call: Call, kind: str, session: str, place: int = 0, body: bytes = b"") -> None:
        """Have the worker answer that the session's id names."""
        name = session.partition("-")[0]
        worker = int(name) if name.isdecimal() and len(name) <= 4 else self._runtime.workers.number

        def done(status: int, body: bytes) -> None:
            call.answer(_told(status, body))

        if worker == self._runtime.workers.number:
            self._serve(kind, session, place, body, done)
        else:
            self.relay.ask(worker, kind, session, place, body, done)

    def _serve(self, kind: str, session: str, place: int, body: bytes, done: Answered) -> None:
        """Answer for a session of this process."""
        found = self._runtime.http.sessions.get(session)
        if found is None:
            done(ENDED, b"")
        elif kind == _POST:
            frames = [line for line in body.split(b"\n") if line.strip()]
            found.posted(place, frames, lambda status: done(status, b""))
        elif kind == _LEAVE:
            found.leave()
            done(HANDLED, b"")
        elif isinstance(found, PollAnswers):
            found.poll(place, done)
        else:
            done(ENDED, b"")


def _count(call: Call, name: str, hint: str) -> int:
    text = call.parameter(name)
    if text is None:
        raise InvalidMessage("invalid", f"no {name}: {hint}")
    return read_count(name, text, 1, SESSION_NUMBER_MAX)


def _told(status: int, body: bytes) -> HttpAnswer:
    """Return the answer to a request that has this status."""
    if status == TOLD:
        return HttpAnswer(TOLD, body, LINES_TYPE)
    if status == ENDED:
        return refusal(ENDED, "There is no such session, or it has ended: begin another one.", code="no_session")
    if status == GAP:
        return refusal(GAP, "What stands before has not come, or is long over: go on where you were.", code="gap")
    if status == BUSY:
        return refusal(BUSY, "What was asked before is not done yet: ask the same again later.", code="busy")
    return HttpAnswer(HANDLED)


def _head_of_stream(call: Call) -> None:
    """Answer a HEAD: a GET is a stream, and never comes here (edge/clients/connection.py)."""
    call.answer(head_of(200, EVENTS_TYPE))
