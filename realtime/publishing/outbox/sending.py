"""Sends what is in the outbox: batch after batch, each until it is known what became of every message."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.db import Error as DatabaseFailure
from django.db import connections

from fastpath.client.control.nodes import NOT_READY, UNAVAILABLE, Nodes
from fastpath.client.errors import ClientError, ControlRefused, SidecarUnavailable
from realtime.publishing import signals
from realtime.publishing.outbox.listening import Ending, Waker
from realtime.publishing.outbox.store import Fates, LeadLost, Numbered, OutboxStore
from realtime.publishing.outcomes import Outcome, Position, PublishFailed, PublishRefused, outcome

PAUSE_SECONDS = (0.1, 2.0)
"""Seconds between two attempts while no sidecar takes anything: the first, and what they double to."""

STANDBY_SECONDS = 0.5
"""Seconds between two looks of a process that waits for its turn to send."""

STALE = "stale"
OUTDATED = "outdated"

_log = logging.getLogger("realtime.outbox")


class Sender:
    """``run`` sends until it is told to stop; of several processes one does, the others stand by."""

    def __init__(self, store: OutboxStore, nodes: Nodes, waker: Waker, stop: Ending) -> None:
        self._store = store
        self._nodes = nodes
        self._waker = waker
        self._stop = stop
        self._pause = PAUSE_SECONDS[0]
        self._trouble = ""

    def run(self) -> None:
        """Send until told to stop, whatever the database or the sidecars do meanwhile."""
        while not self._stop.is_set():
            try:
                self._round()
            except LeadLost:
                _log.warning("another process sends now")
            except DatabaseFailure as error:
                self._store.forget()
                self._waker.close()
                connections[self._store.database].close()  # the next attempt opens another
                self._tell(f"the database does not answer: {' '.join(str(error).split())}")
                self._rest()
        try:
            self._store.release()
        except DatabaseFailure as error:
            _log.warning("another process takes over some seconds later: %s", error)
        self._waker.close()

    def _round(self) -> None:
        if not self._store.leads and not self._store.lead():
            self._stop.wait(STANDBY_SECONDS)
            return
        self._waker.listen()  # before it is looked what waits, so that nothing comes between
        batch = self._store.take()
        if not batch:
            self._waker.wait()
            return
        self._send(batch)

    def _send(self, batch: Sequence[Numbered]) -> None:
        try:
            outcomes = self._outcomes(batch)
        except SidecarUnavailable as error:
            self._tell(str(error), f"{len(batch)} messages or more wait: ")
            self._store.retry()
            self._store.settle(Fates([], {}, [(one.id, one.number) for one in batch]))
            self._rest()
            return
        fates, again = _fates(batch, outcomes)
        self._store.settle(fates)
        _report(batch, outcomes, fates)
        if again is None:
            self._trouble, self._pause = "", PAUSE_SECONDS[0]
            return
        if again.code == STALE and not fates.pending:
            self._store.renumber()
        self._tell(f"messages wait, the first to {again.subject}: {again.code}: {again.reason}")
        self._store.retry()
        self._rest()

    def _outcomes(self, batch: Sequence[Numbered]) -> list[Outcome]:
        """Return what the sidecar says of each; one that no frame can hold is refused alone. Raise
        SidecarUnavailable."""
        try:
            answer = self._nodes.publish([_wire(one) for one in batch], publisher=self._store.publisher)
        except ControlRefused as error:
            if len(batch) == 1:
                return [outcome([error.code, error.reason], 0, batch[0].row.subject)]
            return [found for one in batch for found in self._outcomes([one])]
        return [
            outcome(result, answer["epoch"], one.row.subject)
            for one, result in zip(batch, answer["results"], strict=True)
        ]

    def _tell(self, trouble: str, more: str = "") -> None:
        """Log it, once as long as it is the same, with what is said before it and may change meanwhile."""
        if trouble != self._trouble:
            self._trouble = trouble
            _log.error("%s%s; trying again", more, trouble)

    def _rest(self) -> None:
        self._stop.wait(self._pause)
        self._pause = min(self._pause * 2, PAUSE_SECONDS[1])


def _wire(one: Numbered) -> list[Any]:
    subject, content, fields, meta = one.row.wire
    return [subject, content, fields, meta | {"id": one.number}]


def _fates(batch: Sequence[Numbered], outcomes: Sequence[Outcome]) -> tuple[Fates, PublishFailed | None]:
    """Return what is to be done with each row, and the first error for which something has to wait."""
    fates = Fates([], {}, [])
    again: PublishFailed | None = None
    for one, told in zip(batch, outcomes, strict=True):
        if isinstance(told, Position) or _was_stored(one, told):
            fates.stored.append(one.id)
        elif isinstance(told, PublishRefused):
            fates.refused[one.id] = told.code, told.reason
        elif isinstance(told, PublishFailed):
            # The others are known not to be stored: their numbers are used up where later ones were stored.
            if told.code in (UNAVAILABLE, NOT_READY):
                fates.pending.append((one.id, one.number))
            again = again or told
    return fates, again


def _was_stored(one: Numbered, told: ClientError | Position) -> bool:
    """Return True for a message that was sent before: its number is too old to be remembered, or its content was
    replaced."""
    return one.doubtful and getattr(told, "code", "") in (STALE, OUTDATED)


def _report(batch: Sequence[Numbered], outcomes: Sequence[Outcome], fates: Fates) -> None:
    """Log what was set aside or is only believed to be stored, and call the receivers of signals."""
    stored = {*fates.stored}
    believed = [
        one for one, told in zip(batch, outcomes, strict=True) if one.id in stored and not isinstance(told, Position)
    ]
    if believed:
        _log.warning(
            "%d messages that were sent before count as stored, the first to %s: the sidecar remembers their numbers "
            "no more",
            len(believed),
            believed[0].row.subject,
        )
    aside = [(one, told) for one, told in zip(batch, outcomes, strict=True) if one.id in fates.refused]
    if aside:
        _log.error("%d messages were refused and set aside; the first: %s", len(aside), aside[0][1])
    settled = [
        (one.row, told)
        for one, told in zip(batch, outcomes, strict=True)
        if isinstance(told, Position) or one.id in fates.refused
    ]
    signals.tell([row for row, _ in settled], [told for _, told in settled])
