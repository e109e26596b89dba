"""A publisher about which a hook is asked: its batch waits until the hook has decided about each subject in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.auth.grants import Principal
from ...core.auth.hook_decisions import HookDecisions, HookState
from ...core.auth.hook_questions import CONNECT, HookReply, Key
from ...core.auth.reasons import ASKED
from ...core.auth.rules import PUBLISH, SUBSCRIBE
from ...core.broker.staged_rows import named
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import Close
from ...core.protocol.messages import Message
from ...core.protocol.packets import BATCH_MESSAGES_MAX, Batch
from ...core.protocol.subject import JOBS
from ...core.sessions.deferred_commands import Facts, is_askable, refused_by
from ..runtime.component import GatedPublisher
from ..runtime.runtime import Runtime


class PublisherGate:
    """One publisher, as the party of its questions; ``gone`` is told of its end."""

    def __init__(
        self,
        runtime: Runtime,
        asking: HookDecisions,
        connection: GatedPublisher,
        principal: Principal,
        facts: Facts,
        welcome: Callable[[], None],
        told_gone: Callable[[PublisherGate, int, str], None],
    ) -> None:
        self._runtime = runtime
        self._connection: GatedPublisher | None = connection
        self._facts = facts
        self._welcome: Callable[[], None] | None = welcome
        self._told_gone = told_gone
        self._passed = False
        self._subjects: set[str] = set()  # of the frame that waits
        self.let_in = CONNECT not in asking.events
        """True once the publisher may be here."""
        self.asked = principal.asked = HookState(asking, self)

    def begin(self) -> None:
        """Let it in, or ask first."""
        if self.let_in:
            self._let_in()
        elif self._connection is not None:
            self._connection.hold(True, PauseReason.ASKED)
            self.asked.want((CONNECT, ""))

    def gone(self, code: int, reason: str) -> None:
        """Note that the connection is over."""
        self._connection = None
        self._told_gone(self, code, reason)

    @property
    def waits(self) -> bool:
        """State of the gate: True while a batch waits."""
        return bool(self._subjects)

    def facts(self) -> Facts:
        """Return what the hook is told of the publisher with each question."""
        return self._facts | {"again": self.let_in}

    def uses(self, key: Key, *, strictly: bool = False) -> bool:
        """Return True if the publisher still wants the right: each publication asks for its own, what is read goes
        on."""
        if key[0] == PUBLISH:
            return strictly and key[1] in self._subjects
        if key[0] == SUBSCRIBE:
            return not strictly
        return key[0] == CONNECT and self.let_in

    def fail(self) -> None:
        """End with a fault of ours."""
        self._end(Close.INTERNAL_ERROR, "a fault of the server; reconnect and resend")

    def parks(self, command: list[Any] | Batch, data: bytes, now: int) -> bool:
        """Return True if the frame waits, with all that comes after it, because the hook is asked about subjects in
        it."""
        del data
        if self._passed:
            self._passed = False
            self.asked.fresh.clear()  # it was for the frame before
        connection, grants = self._connection, self._runtime.broker.grants
        if PUBLISH not in self.asked.asking.events or connection is None or connection.principal is None:
            return False
        principal = connection.principal
        self._subjects = {subject for subject in subjects_of(command) if is_askable(subject)} | reported_by(command)
        reasons = [grants.check(principal, PUBLISH, subject, now) for subject in self._subjects]
        if any(reason is ASKED for reason in reasons):
            connection.hold(True, PauseReason.ASKED)
            return True
        self._passed, self._subjects = True, set()
        return False

    def answered(self, event: str, subjects: list[str], reply: HookReply, now: int) -> bool:
        """Do what the hook says, and go on with what waited for it."""
        del subjects, now
        if reply.disconnect is not None:
            self._end(Close.CLOSED_BY_OPERATOR, reply.disconnect)
        elif event == CONNECT:
            self._connected(reply)
        elif self._connection is not None and not any(key[0] == PUBLISH for key in self.asked.wanted):
            self._connection.hold(False, PauseReason.ASKED)
            return False  # the frame is handled in the next turn
        return event == CONNECT

    def _connected(self, reply: HookReply) -> None:
        reason = refused_by(reply)
        if not reason:
            if reply.user is not None and self._runtime.broker.grants.mode == "custom":
                if reply.user != self._facts["user"]:
                    self.asked.renew(another=True)
                self._facts["user"] = self.asked.user = reply.user
                if self._connection is not None and self._connection.principal is not None:
                    self._connection.principal.user = reply.user
            self._let_in()
        elif not reply.failed:
            self._end(Close.DENIED, reason)
        elif not self.let_in:
            self._end(Close.NOT_READY, reason)

    def _let_in(self) -> None:
        self.let_in = True
        welcome, self._welcome = self._welcome, None
        if welcome is not None:
            welcome()
            if self._connection is not None:
                self._connection.hold(False, PauseReason.ASKED)

    def _end(self, code: Close, reason: str) -> None:
        if self._connection is not None:
            self._connection.close(code, reason)


def reported_by(frame: list[Any] | Batch) -> set[str]:
    """Return the subject of a job's report, which no other frame may publish to."""
    match frame:
        case ["report", int(), str(job), *_]:
            return {JOBS + job}
    return set()


def subjects_of(frame: list[Any] | Batch) -> set[str]:
    """Return the subjects of a batch, or of rows that are staged; none of any other frame, nor of what is no
    publication."""
    if isinstance(frame, Batch):
        return {message.subject for message in frame.messages}
    match frame:
        case ["stage", int(), tuple(), int(rows), bytes(raw)]:
            return named(rows, raw)
        case ["batch", int(), list(rows), *_] if len(rows) <= BATCH_MESSAGES_MAX:
            return {
                row.subject if isinstance(row, Message) else row[0]
                for row in rows
                if isinstance(row, Message) or (isinstance(row, list) and row and isinstance(row[0], str))
            }
    return set()
