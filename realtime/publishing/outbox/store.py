"""The outbox' tables as the process that sends sees them: who leads, what is next, and what came of it."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec
from django.db import IntegrityError, connections, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from fastpath.core.protocol.packets import read_publication
from realtime.models import OutboxMessage, OutboxState
from realtime.process.holders import has_ended, new_holder
from realtime.publishing.outbox.statements import NEXT, SETTLE, TAKE
from realtime.publishing.rows import Row

BATCH_ROWS = 1000
BATCH_BYTES = 8 << 20
"""Bytes of messages that are sent together; one that is larger goes alone."""

BEAT_SECONDS = 5.0
LEASE_SECONDS = 15.0
"""Seconds after which a process that has changed nothing may be replaced; one that has ended is replaced at once."""

REASON_MAX = 500

_STATE = 1
_AT_ONCE = 500
"""Rows of one statement."""

_Item = TypeVar("_Item")

UNREADABLE = "invalid"

_log = logging.getLogger("realtime.outbox")

_decode = msgspec.msgpack.Decoder().decode


class LeadLost(Exception):
    """Another process sends now."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A row of the outbox, the number that it is sent under, and whether it may have been sent before."""

    id: int
    number: int
    row: Row
    doubtful: bool


class _Found(NamedTuple):
    """A row as the database has it, and the number that it is sent under."""

    id: int
    number: int
    subject: str
    size: int
    message: Any


@dataclass(slots=True)
class Fates:
    """The fates of a batch's messages; a message that is in none of these waits, and gets another number."""

    stored: list[int]
    refused: dict[int, tuple[str, str]]
    """Code and reason, by the row's id."""
    pending: list[tuple[int, int]]
    """Ids and numbers of what is to be sent again under the same number, ahead of all others."""


class OutboxStore:
    """The outbox of one database; every method raises django.db.Error when that does not answer, and LeadLost."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.leads = False
        self._holder = new_holder()
        self._publisher = ""
        self._number = 0
        self._pending: list[tuple[int, int]] = []
        self._beat_at = 0.0
        self._seen: tuple[str, int, float] = ("", -1, 0.0)

    def lead(self) -> bool:
        """Become the one that sends; False while another one does."""
        states = self._states()
        state = states.first()
        if state is None:
            with suppress(IntegrityError):  # another one makes it in the same moment
                states.create(
                    pk=_STATE, holder="", beat=0, publisher="", number=0, pending=[], sent=0, refused=0, retries=0
                )
            state = states.get()
        if not self._free(state):
            return False
        pending = [(int(row), int(number)) for row, number in state.pending]
        # Numbers are gone on with only for what may have been sent: a database that was restored has older ones.
        publisher, number = (state.publisher, state.number) if pending else (_new_publisher(), 0)
        mine = states.filter(holder=state.holder, beat=state.beat)
        if not mine.update(holder=self._holder, beat=state.beat + 1, publisher=publisher, number=number):
            return False
        self.leads, self._publisher, self._number, self._pending = True, publisher, number, pending
        self._beat_at = time.monotonic() + BEAT_SECONDS
        return True

    @property
    def publisher(self) -> str:
        """The name that belongs to the numbers."""
        return self._publisher

    def take(self) -> list[Numbered]:
        """Return what is to be sent next, at most a batch, without rows that cannot be read; empty when nothing
        waits."""
        if self._pending:
            batch = self._readable(list(self._load(self._pending)), doubtful=True)
            if batch:
                return batch
            self._renew(pending=[])  # somebody has deleted them
            self._pending = []
        while found := self._numbered():
            self._pending = [(one.id, one.number) for one in found]
            self._number = found[-1].number
            if batch := self._readable(found, doubtful=False):
                return batch
        if time.monotonic() >= self._beat_at:
            self._renew()
        return []

    def _readable(self, found: Sequence[_Found], doubtful: bool) -> list[Numbered]:
        batch: list[Numbered] = []
        unreadable: dict[int, tuple[str, str]] = {}
        for one in found:
            try:
                row = _row(one.subject, one.size, one.message)
            except Exception as error:
                unreadable[one.id] = UNREADABLE, f"the row cannot be read: {error}"
            else:
                batch.append(Numbered(one.id, one.number, row, doubtful))
        if unreadable:
            _log.error(
                "%d rows of the outbox cannot be read and are set aside: %s", len(unreadable), [*unreadable][:10]
            )
            self.settle(Fates([], unreadable, [(one.id, one.number) for one in batch]))
        return batch

    def settle(self, fates: Fates) -> None:
        """Write what became of the batch that was taken, in one transaction."""
        if self._in_one_statement() and not fates.refused:
            self._settle(fates)
            return
        messages = self._messages()
        with transaction.atomic(using=self.database):
            self._renew(
                pending=fates.pending,
                sent=F("sent") + len(fates.stored),
                refused=F("refused") + len(fates.refused),
            )
            for ids in _parts(fates.stored):
                messages.filter(pk__in=ids).delete()
            now = timezone.now()
            for row, (code, reason) in fates.refused.items():
                messages.filter(pk=row).update(code=code, reason=reason[:REASON_MAX], refused=now)
        self._pending = fates.pending

    def retry(self) -> None:
        """Count that the batch that was taken, or a part of it, has to wait."""
        self._renew(retries=F("retries") + 1)

    def renumber(self) -> None:
        """Begin the numbers anew, under another name, when nothing is pending."""
        publisher = _new_publisher()
        self._renew(publisher=publisher, number=0)
        self._publisher, self._number = publisher, 0

    def forget(self) -> None:
        """Forget what holds in the database, which did not answer: ``lead`` reads it anew."""
        self.leads = False

    def release(self) -> None:
        """Let another one send at once."""
        if self.leads:
            with suppress(LeadLost):
                self._renew(holder="")
            self.leads = False

    def _numbered(self) -> list[_Found]:
        """Return the next batch, in the order of the commits of each subject, with its numbers in the state."""
        at_once = self._in_one_statement()
        with connections[self.database].cursor() as cursor:
            if at_once:
                cursor.execute(TAKE, [BATCH_ROWS, BATCH_BYTES, self._number, _STATE, self._holder])
            else:
                cursor.execute(NEXT, [BATCH_ROWS, BATCH_BYTES])
            found = cursor.fetchall()
        batch = [_Found(row[0], number, *row[1:4]) for number, row in enumerate(found, self._number + 1)]
        if batch and at_once:
            self._check(found[0][4])
        elif batch:
            self._renew(pending=[(one.id, one.number) for one in batch], number=batch[-1].number)
        return batch

    def _settle(self, fates: Fates) -> None:
        with connections[self.database].cursor() as cursor:
            pending = json.dumps(fates.pending)
            cursor.execute(SETTLE, [len(fates.stored), pending, _STATE, self._holder, fates.stored])
            self._check(cursor.fetchone()[0])
        self._pending = fates.pending

    def _in_one_statement(self) -> bool:
        """Return True if a step is one statement: each is a way to the server and back, for which a message waits."""
        return connections[self.database].vendor == "postgresql"

    def _load(self, pending: Sequence[tuple[int, int]]) -> Iterator[_Found]:
        found: dict[int, OutboxMessage] = {}
        for part in _parts(pending):
            found |= self._messages().filter(code="").in_bulk([row for row, _ in part])
        for row, number in pending:
            message = found.get(row)
            if message is not None:
                yield _Found(row, number, message.subject, message.size, message.message)

    def _renew(self, **values: Any) -> None:
        """Change the state if it is still this one's; the row stays locked until the transaction ends."""
        self._check(self.leads and self._states().filter(holder=self._holder).update(beat=F("beat") + 1, **values))

    def _check(self, changed: bool | int) -> None:
        """Raise LeadLost unless the state was this process's, and has changed."""
        if not changed:
            self.leads = False
            raise LeadLost
        self._beat_at = time.monotonic() + BEAT_SECONDS

    def _free(self, state: OutboxState) -> bool:
        """Return True if nobody sends: told without a clock that could jump, or that two machines would have to
        share."""
        if not state.holder or state.holder == self._holder or has_ended(state.holder):
            return True
        if self._seen[:2] != (state.holder, state.beat):
            self._seen = (state.holder, state.beat, time.monotonic())
        return time.monotonic() - self._seen[2] > LEASE_SECONDS

    def _states(self) -> QuerySet[OutboxState]:
        return OutboxState.objects.using(self.database).filter(pk=_STATE)

    def _messages(self) -> QuerySet[OutboxMessage]:
        return OutboxMessage.objects.using(self.database)


def _row(subject: str, size: int, message: Any) -> Row:
    """Return the row as it is sent; raise InvalidMessage and what the decoder and the database's value do."""
    subject_of_it, content, fields, meta = wire = _decode(bytes(message))
    read_publication(wire)
    if subject_of_it != subject:
        raise ValueError(f"it is for {subject_of_it}")
    return Row(subject, [subject, content, fields, meta or {}], size)


def send_again(database: str | None, ids: Iterable[int]) -> int:
    """Put rows that were set aside back, behind those that wait; how many there were."""
    messages = OutboxMessage.objects.using(database)
    with transaction.atomic(using=database):
        found = list(messages.select_for_update().filter(pk__in=list(ids)).exclude(code="").order_by("id"))
        messages.filter(pk__in=[one.pk for one in found]).delete()
        # New rows, as their place is that of this commit.
        messages.bulk_create(
            OutboxMessage(subject=one.subject, message=one.message, size=one.size, created=one.created) for one in found
        )
    return len(found)


def _new_publisher() -> str:
    return f"outbox:{secrets.token_hex(8)}"


def _parts(rows: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for at in range(0, len(rows), _AT_ONCE):
        yield rows[at : at + _AT_ONCE]
