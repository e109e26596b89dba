"""A client that asks over HTTP for what has come: what is a socket to others are the answers to its polls here."""

from __future__ import annotations

from collections.abc import Callable

from ...core.delivery.audience import Client
from ...core.delivery.wire import terms_of
from ...core.events.lines import encode_line
from ...core.protocol.codec import JSON, POLL
from ...core.protocol.errors import Close
from ...core.protocol.rest import encode_body
from ...core.websocket.handshake import Request
from ...core.wires.registry import wire_of
from ...listen_address import Listener
from ..runtime.runtime import Runtime, now
from .client_socket import ClientSocket
from .connection import ClientConnection
from .handshake import POLL_MS, session_terms
from .posted_frames import BUSY, ENDED, GAP, Done

ANSWER_BYTES = 64 << 10
"""Bytes of frames in one answer, unless one alone is larger."""

TOLD = 200
"""The status of an answer to a poll."""

Answered = Callable[[int, bytes], None]
"""Gets the status of a poll, and the lines that answer it."""


class PollingClients:
    """The clients of one process that poll: since when they ask nothing, or until when what they ask is held (ms).

    ``awake`` tells for how long the process was awake (ms): what was asked while it was not waits unread, and that
    silence is not the clients'.
    """

    def __init__(self, awake: Callable[[], int]) -> None:
        self._awake = awake
        self._quiet: dict[PollAnswers, int] = {}
        self._held: dict[PollAnswers, int] = {}

    def __len__(self) -> int:
        return len(self._quiet) + len(self._held)

    @property
    def held(self) -> int:
        """Number of polls that are held."""
        return len(self._held)

    def hold(self, poller: PollAnswers) -> None:
        """Note that a poll of the client is held."""
        self.forget(poller)
        self._held[poller] = now() + POLL_MS

    def heard(self, poller: PollAnswers) -> None:
        """Note that the client has said something, or was answered."""
        if poller not in self._held:
            self._quiet.pop(poller, None)
            self._quiet[poller] = self._awake() + 2 * POLL_MS

    def forget(self, poller: PollAnswers) -> None:
        """Forget a client that is gone, or waits otherwise."""
        self._quiet.pop(poller, None)
        self._held.pop(poller, None)

    def tick(self, moment: int) -> None:
        """Answer the polls that have been held long enough, and end the sessions whose clients ask nothing."""
        for poller in _due(self._held, moment):
            poller.answer()
        for poller in _due(self._quiet, self._awake()):
            poller.silent()


def _due(pollers: dict[PollAnswers, int], moment: int) -> list[PollAnswers]:
    """Return those whose time is over, out of all, who stand in the order of their times."""
    due = []
    for poller, until in pollers.items():
        if until > moment:
            break
        due.append(poller)
    return due


class PollAnswers(ClientSocket[ClientConnection]):
    """The socket of one who polls: the answers to its polls. What is said over the session is posted here.

    Collects what is written while a poll is held, until the turn of the loop is over; else nothing is taken, and waits
    in the client's queue. The last answer is kept until the next one, as it may be lost on its way: ``_answers`` counts
    them, and a poll says how many of them have arrived.
    """

    __slots__ = ("_answers", "_connection", "_due", "_kept", "_last", "_out", "_poll", "_polling", "_runtime")

    def __init__(self, runtime: Runtime, polling: PollingClients, address: str, listener: Listener) -> None:
        super().__init__(listener)
        self._runtime = runtime
        self._polling = polling
        self._poll: Answered | None = None
        self._out = bytearray()
        self._kept = b""
        self._answers = 0
        self._due = self._last = False
        self._connection: ClientConnection | None = ClientConnection(runtime, self, -runtime.http.number(), address)
        """The connection behind the polls; None once it is over: the two hold each other."""

    # Requests

    def begin(self, request: Request, token: str, done: Answered) -> None:
        """Begin with the first request: ``done`` gets what the client is told first.

        Who may not come is told so behind that, as over a WebSocket.
        """
        connection = self._connection
        assert connection is not None
        refused = connection.join(request, token, terms_of(wire_of(POLL)), self)
        assert connection.session is not None
        self._poll = done
        self._out += encode_line(encode_body(session_terms(self._runtime, connection.session.id), JSON))
        connection.turn_away(refused)
        self.answer()

    def poll(self, arrived: int, done: Answered) -> None:
        """Answer the client, at which so many answers have arrived, with what has come since."""
        connection = self._connection
        if connection is None or connection.client is None:
            done(ENDED, b"")
            return
        connection.heard()
        self._polling.heard(self)
        if arrived == self._answers - 1:
            done(TOLD, self._again(connection.client))
        elif arrived != self._answers:
            done(GAP, b"")
        elif self._last:
            done(ENDED, b"")
            self._runtime.loop.call_soon(connection.lost)
        else:
            before, self._poll = self._poll, done
            if before is not None:
                before(BUSY, b"")  # no answer that counts: the client may not take it for the one that is next
            self._polling.hold(self)
            connection.writable()

    def posted(self, first: int, frames: list[bytes], done: Done) -> None:
        """Take frames of the client, which shows that it lives."""
        connection = self._connection
        if connection is None:
            done(ENDED)
            return
        if not connection.closing:
            self._polling.heard(self)
        connection.posted(first, frames, done)

    def leave(self) -> None:
        """Let the client go, which says that it has gone."""
        if self._connection is not None:
            self._connection.leave()

    def silent(self) -> None:
        """End a client that has asked nothing for long."""
        self._polling.forget(self)
        if self._connection is not None:
            self._connection.close(Close.PING_TIMEOUT, "ping_timeout: nothing was asked for long")

    def _again(self, client: Client) -> bytes:
        """Return the last answer once more, without what the client does not read any more, or may not."""
        sids = {topic.sid for topic in client.subscriptions}
        return b"".join(line for line, sid in client.terms.wire.split(self._kept) if sid < 0 or sid in sids)

    # Answers

    def answer(self) -> None:
        """Answer the poll that is held with what has come for it."""
        self._due = False
        poll, self._poll = self._poll, None
        if poll is None:
            return
        self._kept = bytes(self._out)
        self._out.clear()
        self._answers += 1
        self._polling.forget(self)
        if self._connection is not None:
            self._polling.heard(self)
        poll(TOLD, self._kept)

    # The socket

    def send(self, connection: ClientConnection, data: bytes | memoryview) -> int:
        """Take whole lines for the poll that is held; return how many bytes that were, 0 while none is held."""
        if connection.ended:
            return -1
        if self._poll is None:
            return 0
        taken = _whole(data, ANSWER_BYTES - len(self._out), alone=not self._out)
        self._out += data[:taken]
        if taken and not self._due:
            self._due = True
            self._runtime.loop.call_soon(self.answer)
        return taken

    def await_writable(self, connection: ClientConnection, wanted: bool) -> None:
        """Do nothing: the next poll calls ``writable`` by itself."""

    def await_readable(self, connection: ClientConnection, wanted: bool) -> None:
        """Do nothing: what is posted waits by itself."""

    def finish(self, connection: ClientConnection) -> None:
        """Note that the goodbye is in an answer: with that the client has all."""
        self._last = True

    def shut(self, connection: ClientConnection) -> None:
        """Answer the poll that is held: there is nothing to ask for any more."""
        poll, self._poll, self._connection = self._poll, None, None
        self._polling.forget(self)
        if poll is not None:
            poll(TOLD, bytes(self._out)) if self._last else poll(ENDED, b"")


def _whole(data: bytes | memoryview, room: int, *, alone: bool) -> int:
    """Return how many bytes of these whole frames fit, cut between two; the first one always does if it is
    ``alone``."""
    if len(data) <= room:
        return len(data)
    end = bytes(data[: max(room, 0)]).rfind(b"\n") + 1
    return end or (bytes(data).find(b"\n") + 1 if alone else 0)
