"""Conflation by subject, interval and phase, pulled when an interval ends (features.md A7).

A publication only numbers what it changed: the subject's live state keeps, for the content and for each field, the
number of the publication that last set it. When a group's interval ends it takes what is numbered above what it took
last. So the cost follows what is sent, not what is published, and a group that joins late starts at its own number.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from ..protocol.columns import ColumnBatch, last_values
from ..protocol.limits import CONFLATION_GRID_MS, CONFLATION_MS_MAX, SNAPSHOT_FIELDS_MAX
from ..protocol.messages import Fields, Message, Value

T = TypeVar("T", bound=Hashable)
"""A client."""


def floor_interval(asked_ms: int) -> int:
    """Return the interval in force for the one asked for: floored to the grid of 100 ms; 0 is none."""
    return max(0, min(asked_ms, CONFLATION_MS_MAX)) // CONFLATION_GRID_MS * CONFLATION_GRID_MS


class ConflationState(Generic[T]):
    """The changes of one subject while someone conflates it.

    ``lagging`` are the clients that are conflated because they lag, each with the number it stands at
    (core/delivery/slow_consumers.py).
    """

    __slots__ = ("_fields", "_last", "_numbered", "_removed", "lagging", "number")

    def __init__(self) -> None:
        self.number = 0
        self.lagging: dict[T, int] = {}
        self._last: Message | None = None
        self._numbered: tuple[int, int, int] = (0, 0, 0)
        self._fields: dict[str, tuple[int, Value]] = {}
        self._removed: tuple[int, Message, tuple[int, int, int]] | None = None
        """The newest removal: its number, itself, and what was ``_numbered`` then."""

    def note(self, message: Message) -> bool:
        """Number a publication; return whether more fields are gathered now than may be (lagging.relieve).

        A message with retained=false counts like any other. One that replaces, as a removal does, is not merged with
        fields of before; those of a removal itself are not merged with what follows.
        """
        self.number += 1
        self._last = message
        number = self.number
        if message.seq:
            self._numbered = (number, message.epoch, message.seq)
        if message.replace:
            self._fields = {}
        if message.removed:
            self._removed = number, message, self._numbered
        elif message.fields:
            for name, value in message.fields.items():
                self._fields[name] = (number, value)
        return len(self._fields) > SNAPSHOT_FIELDS_MAX

    def note_run(self, run: ColumnBatch, last: Message) -> bool:
        """Number all rows of a run, of which ``last`` is the newest, as ``note`` would one by one."""
        self.number += len(run.contents)
        self._last = last
        if last.seq:
            self._numbered = (self.number, last.epoch, last.seq)
        if run.replace:
            self._fields = {}
        for name, value in (last.fields or {}).items() if run.replace else last_values(run):
            self._fields[name] = (self.number, value)  # nobody stands between two rows of a run
        return self.full

    @property
    def full(self) -> bool:
        """True when more fields are gathered than may be."""
        return len(self._fields) > SNAPSHOT_FIELDS_MAX

    def since(self, number: int) -> list[Message]:
        """Return one message for all that came after ``number``, none when nothing did.

        Where the subject was removed meanwhile, the newest removal stands for all up to it, and what came behind it is
        another message: so nobody keeps a field of before. A message's position is that of the newest numbered one that
        it stands for (0 when all were of standard quality).
        """
        last = self._last
        if last is None or self.number <= number:
            return []
        if self._removed is None or self._removed[0] <= number:
            return [self._merged(last, self._numbered, number, self.number)]
        at, removal, numbered = self._removed
        gone = self._merged(removal, numbered, number, at)
        return [gone] if at == self.number else [gone, self._merged(last, self._numbered, at, self.number)]

    def _merged(self, last: Message, numbered: tuple[int, int, int], number: int, upto: int) -> Message:
        """Return the message that stands for all after ``number``, of which the one numbered ``upto`` is ``last``."""
        if upto == number + 1:
            return last
        fields: Fields | None = last.fields
        if not last.removed:
            fields = {name: value for name, (set_by, value) in self._fields.items() if set_by > number}
        set_by, epoch, seq = numbered
        if set_by <= number:
            epoch = seq = 0
        return Message(
            last.subject,
            last.content,
            fields,
            retained=last.retained,
            qos=last.qos,
            reply_to=last.reply_to,
            as_of=last.as_of,
            epoch=epoch,
            seq=seq,
            time=last.time,
            replace=last.removed,
            removed=last.removed,
        )

    def fields_after(self, fields: Collection[str]) -> int:
        """Return how many field names the state would hold after these were added."""
        return len(self._fields) + sum(1 for name in fields if name not in self._fields)

    def forget(self, number: int) -> None:
        """Drop the fields that no group needs any more: those set at ``number`` or before."""
        self._fields = {name: entry for name, entry in self._fields.items() if entry[0] > number}
