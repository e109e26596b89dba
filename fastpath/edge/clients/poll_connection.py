"""A client that asks over HTTP for what has come: what is a socket to others are the answers to its polls here."""

from __future__ import annotations

from collections.abc import Callable

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
from .posted_frames import BUSY, ENDED, GAP, Done, PostedFrames

ANSWER_BYTES = 64 << 10
"""Of frames in one answer, unless one alone is larger."""

TOLD = 200
"""The status of an answer to a poll."""

Answered = Callable[[int, bytes], None]
"""Gets the status of a poll, and the lines that answer it."""


class Polling:
    """The clients of one process that poll: since when they ask nothing, or until when what they ask is held (ms).

    ``awake`` tells for how long the process was awake (ms): what was asked while it was not waits unread, and that
    silence is not the clients'.
    """

    def __init__(self, awake: Callable[[], int]) -> None:
        self._awake = awake
        self._quiet: dict[PollConnection, int] = {}
        self._held: dict[PollConnection, int] = {}

    def __len__(self) -> int:
        return len(self._quiet) + len(self._held)

    @property
    def held(self) -> int:
        """How many polls are held."""
        return len(self._held)

    def hold(self, connection: PollConnection) -> None:
        """A poll of the client is held."""
        self.forget(connection)
        self._held[connection] = now() + POLL_MS

    def heard(self, connection: PollConnection) -> None:
        """The client has said something, or was answered."""
        if connection not in self._held:
            self._quiet.pop(connection, None)
            self._quiet[connection] = self._awake() + 2 * POLL_MS

    def forget(self, connection: PollConnection) -> None:
        """The client is gone, or waits otherwise."""
        self._quiet.pop(connection, None)
        self._held.pop(connection, None)

    def tick(self, moment: int) -> None:
        """Answer the polls that have been held long enough, and end the sessions whose clients ask nothing."""
        for connection in _due(self._held, moment):
            connection.answer()
        for connection in _due(self._quiet, self._awake()):
            connection.silent()


def _due(connections: dict[PollConnection, int], moment: int) -> list[PollConnection]:
    """Those whose time is over, out of all, who stand in the order of their times."""
    due = []
    for connection, until in connections.items():
        if until > moment:
            break
        due.append(connection)
    return due


class PollAnswers(ClientSocket["PollConnection"]):
    """The socket of those who poll: the answers to their polls."""

    __slots__ = ()

    def send(self, connection: PollConnection, data: bytes | memoryview) -> int:
        """Take whole lines for the poll that is held; how many bytes that were, 0 while none is."""
        return connection.collect(data)

    def await_writable(self, connection: PollConnection, wanted: bool) -> None:
        """The next poll calls ``writable`` by itself."""

    def await_readable(self, connection: PollConnection, wanted: bool) -> None:
        """What is posted waits by itself."""

    def finish(self, connection: PollConnection) -> None:
        """The goodbye is in an answer: with that the client has all."""
        connection.collected()

    def shut(self, connection: PollConnection) -> None:
        """Let the client know that there is nothing to ask for any more."""
        connection.over()


class PollConnection(ClientConnection):
    """Collects what is written while a poll is held, until the turn of the loop is over; else nothing is taken, and
    waits in the client's queue.

    The last answer is kept until the next one, as it may be lost on its way: ``_answers`` counts them, and a poll says
    how many of them have arrived.
    """

    __slots__ = ("_answers", "_due", "_kept", "_last", "_out", "_poll", "_polling")

    def __init__(self, runtime: Runtime, polling: Polling, address: str, listener: Listener) -> None:
        super().__init__(runtime, PollAnswers(listener), -runtime.http.number(), address)
        self._polling = polling
        self._poll: Answered | None = None
        self._out = bytearray()
        self._kept = b""
        self._answers = 0
        self._due = self._last = False

    # Requests

    def begin(self, request: Request, token: str, done: Answered) -> None:
        """The first request: ``done`` gets what the client is told first. Who may not come is told so behind that, as
        over a WebSocket."""
        refused = self._open(token, terms_of(wire_of(POLL)), direct=False)
        self.session = PostedFrames(self.runtime.http.begin_session(self.runtime.workers.number, self))
        self._tell_opened(request, token, refused)
        self._poll = done
        self._out += encode_line(encode_body(session_terms(self.runtime, self.session.id), JSON))
        if refused is not None:
            self.close(refused.code, f"{refused.code.label}: {refused.reason}")
        self.answer()

    def poll(self, arrived: int, done: Answered) -> None:
        """The client, at which so many answers have arrived, asks for what has come since."""
        if self.ended or self.client is None:
            done(ENDED, b"")
            return
        self.heard()
        self._polling.heard(self)
        if arrived == self._answers - 1:
            done(TOLD, self._again())
        elif arrived != self._answers:
            done(GAP, b"")
        elif self._last:
            done(ENDED, b"")
            self.runtime.loop.call_soon(self.lost)
        else:
            before, self._poll = self._poll, done
            if before is not None:
                before(BUSY, b"")  # no answer that counts: the client may not take it for the one that is next
            self._polling.hold(self)
            self.writable()

    def posted(self, first: int, frames: list[bytes], done: Done) -> None:
        """The client says these frames, and shows that it lives."""
        if not self.closing:
            self._polling.heard(self)
        super().posted(first, frames, done)

    def _again(self) -> bytes:
        """The last answer once more, without what the client does not read any more, or may not."""
        client = self.client
        assert client is not None
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
        if not self.ended:
            self._polling.heard(self)
        poll(TOLD, self._kept)

    def _answer_soon(self) -> None:
        if not self._due:
            self._due = True
            self.runtime.loop.call_soon(self.answer)

    def silent(self) -> None:
        """The client has asked nothing for long."""
        self._polling.forget(self)
        self.close(Close.PING_TIMEOUT, "ping_timeout: nothing was asked for long")

    # What its socket takes

    def collect(self, data: bytes | memoryview) -> int:
        """Take whole lines for the poll that is held; how many bytes that were, 0 while none is."""
        if self.ended:
            return -1
        if self._poll is None:
            return 0
        taken = _whole(data, ANSWER_BYTES - len(self._out), alone=not self._out)
        self._out += data[:taken]
        if taken:
            self._answer_soon()
        return taken

    def collected(self) -> None:
        """The goodbye is among what was taken."""
        self._last = True

    def over(self) -> None:
        """Answer the poll that is held: there is nothing to ask for any more."""
        poll, self._poll = self._poll, None
        self._polling.forget(self)
        if poll is not None:
            poll(TOLD, bytes(self._out)) if self._last else poll(ENDED, b"")


def _whole(data: bytes | memoryview, room: int, *, alone: bool) -> int:
    """How many bytes of these whole frames fit, cut between two; the first one always does if it is ``alone``."""
    if len(data) <= room:
        return len(data)
    end = bytes(data[: max(room, 0)]).rfind(b"\n") + 1
    return end or (bytes(data).find(b"\n") + 1 if alone else 0)
