"""``POST /api/publish`` and the verb ``publish``: one message or many, answered when they are safe."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ...core.auth.grants import Principal
from ...core.auth.rules import PUBLISH
from ...core.broker.admission import Outcome
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.messages import Message
from ...core.protocol.packets import (
    BATCH_MESSAGES_MAX,
    PUBLICATION_MAX,
    PUBLISHER_CHARS_MAX,
    Refusal,
    publisher_key,
    read_publications,
)
from ...core.protocol.rest import read_key
from ...core.protocol.rest import read_publications as read_body
from ...core.protocol.trace_context import read_traceparent
from ...core.sessions.deferred_commands import is_askable
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime
from .call import Call, code_of

HOOK_SUBJECTS_MAX = 100
"""Subjects of one request that a hook is asked about, one after the other."""

_KEY_PREFIX = "rest:"
"""Tells the names of publishers that are keys of requests from those that publishers give themselves."""


class Publishing:
    """The component that takes what callers of HTTP and Django publish."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._held: deque[_Batch] = deque()
        self.offers = Offers(
            verbs={"publish": self._publish},
            endpoints={"/api/publish": {"POST": self._called}},
            eased=self._go_on,
        )

    def _publish(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Publish Django's ``messages``, and answer when all are safe or refused; Django is never held back.

        ``publisher`` and ``first`` number what Django may send again.
        """
        rows, number = arguments["messages"], peer.request
        publisher, first = arguments.get("publisher") or "", arguments.get("first") or 0
        if not isinstance(rows, list) or len(rows) > BATCH_MESSAGES_MAX:
            raise InvalidMessage("invalid", f"messages is a list of at most {BATCH_MESSAGES_MAX} [subject, content, …]")
        if not isinstance(publisher, str) or len(publisher) > PUBLISHER_CHARS_MAX:
            raise InvalidMessage("invalid", f"publisher is a text of at most {PUBLISHER_CHARS_MAX} characters")
        if first and not (publisher and 0 < first <= PUBLICATION_MAX - len(rows)):
            raise InvalidMessage("invalid", "first numbers publications from 1 on, and needs a publisher")

        def published(outcomes: list[Outcome]) -> None:
            """Answer; where messages are numbered elsewhere, or have to be safe first, this is later."""
            peer.reply(number, {"epoch": self._runtime.broker.engine.epoch, "results": outcomes})

        # No user's key is such a one: those begin with a number.
        key = f"control:{publisher}" if publisher else None
        self._runtime.publish(peer.principal, rows, read_publications(rows, key, first), published)

    # Over HTTP

    def _called(self, call: Call) -> None:
        call.check_parameters()
        form = call.body_form
        assert form is not None
        principal = call.principal()
        rows, refused = read_body(call.body, form)
        call.spend(len(rows))
        call.publishes([row.subject for index, row in enumerate(rows) if index not in refused])
        batch = _Batch(call, principal, rows, refused)
        if not self._runtime.access.may_publish(call.address):
            batch.refuse(batch.subjects(), "denied", f"publishing is not allowed from {call.address}")
        if self._runtime.asks is not None:
            self._ask(batch, deque(sorted(batch.subjects())))
        else:
            self._submit(batch)

    def _ask(self, batch: _Batch, subjects: deque[str]) -> None:
        """Ask the hook about one subject after the other, then publish."""
        askable = deque(subject for subject in subjects if is_askable(subject))
        if len(askable) > HOOK_SUBJECTS_MAX:
            raise InvalidMessage(
                "limit", f"at most {HOOK_SUBJECTS_MAX} subjects in a request: a hook is asked for each"
            )
        self._ask_next(batch, askable)

    def _ask_next(self, batch: _Batch, subjects: deque[str]) -> None:
        if batch.call.is_over:
            return
        if not subjects:
            batch.decided()
            self._submit(batch)
            return
        subject = subjects.popleft()

        def answered(reason: str) -> None:
            if reason:
                batch.refuse((subject,), code_of(reason), reason)
            self._ask_next(batch, subjects)

        batch.call.ask_hook(PUBLISH, subject, answered)

    def _submit(self, batch: _Batch) -> None:
        """Publish, or wait while this process is behind: as everybody who publishes (Runtime.congest)."""
        if self._runtime.congested:
            self._held.append(batch)
        else:
            batch.publish()

    def _go_on(self) -> None:
        held, self._held = self._held, deque()
        for batch in held:
            if not batch.call.is_over:
                batch.call.run(self._submit, batch)


class _Batch:
    """The publications of one request, on their way."""

    def __init__(self, call: Call, principal: Principal, rows: list[Any], refused: dict[int, Refusal]) -> None:
        self.call = call
        self._caller = call.caller(principal)
        self._acting: Principal | None = principal
        self._rows = rows
        self._refused = refused
        key = read_key(call.request.headers.get("idempotency-key", ""))
        if key:
            publisher = publisher_key(principal.user, _KEY_PREFIX + key)
            for number, message in enumerate(rows, 1):
                if type(message) is Message:
                    message.publisher, message.publication = publisher, number
        traceparent = read_traceparent(call.request.headers.get("traceparent"))
        if traceparent is not None:
            for message in rows:
                if type(message) is Message:
                    message.traceparent = traceparent

    def subjects(self) -> set[str]:
        """Return the subjects of all that is not refused yet."""
        return {row.subject for index, row in enumerate(self._rows) if index not in self._refused}

    def refuse(self, subjects: Iterable[str], code: str, reason: str) -> None:
        """Refuse all that goes to these subjects."""
        for index, row in enumerate(self._rows):
            if index not in self._refused and row.subject in subjects:
                self._refused[index] = code, reason

    def decided(self) -> None:
        """Take the yes of the hook, and of the mode before it, to all that is not refused."""
        self._acting = None

    def publish(self) -> None:
        """Hand it to the broker."""
        messages = [row for index, row in enumerate(self._rows) if index not in self._refused]
        self.call.runtime.publish(self._acting, self._rows, (messages, self._refused), self._published, self._caller)

    def _published(self, outcomes: list[Outcome]) -> None:
        """Answer when everything is safe or refused; where messages are numbered elsewhere, this is later."""
        told = [_told(row, outcome) for row, outcome in zip(self._rows, outcomes, strict=True)]
        self.call.answer_with({"results": told})


def _told(row: Any, outcome: Outcome) -> dict[str, Any]:
    """Return what became of one publication (protocol.md 4.4)."""
    if isinstance(outcome, int):
        return {"status": "ok", "epoch": row.epoch, "seq": outcome} if outcome else {"status": "ok"}
    if isinstance(outcome[0], str):
        return {"status": outcome[0], "reason": str(outcome[1])}
    return {"status": "ok", "epoch": outcome[0], "seq": int(outcome[1])}
