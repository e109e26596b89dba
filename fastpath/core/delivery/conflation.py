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
    """The interval in force for the one asked for: floored to the grid of 100 ms; 0 is none."""
    return max(0, min(asked_ms, CONFLATION_MS_MAX)) // CONFLATION_GRID_MS * CONFLATION_GRID_MS


def phase_of(now: int, interval_ms: int) -> int:
    """Return the slot of the interval's grid from which a subscription made at ``now`` (ms) is counted."""
    return now // CONFLATION_GRID_MS % (interval_ms // CONFLATION_GRID_MS)


class ConflationState(Generic[T]):
    """The changes of one subject while someone conflates it.

    ``lagging`` are the clients that are conflated because they lag, each with the number it stands at
    (core/delivery/slow_consumers.py).
    """

    __slots__ = ("_fields", "_last", "_numbered", "lagging", "number")

    def __init__(self) -> None:
        self.number = 0
        self.lagging: dict[T, int] = {}
        self._last: Message | None = None
        self._numbered: tuple[int, int, int] = (0, 0, 0)
        self._fields: dict[str, tuple[int, Value]] = {}

    def note(self, message: Message) -> bool:
        """Number a publication; whether more fields are gathered now than may be (lagging.relieve).

        A message with retained=false counts like any other.
        """
        self.number += 1
        self._last = message
        number = self.number
        if message.seq:
            self._numbered = (number, message.epoch, message.seq)
        if message.fields:
            for name, value in message.fields.items():
                self._fields[name] = (number, value)
        return len(self._fields) > SNAPSHOT_FIELDS_MAX

    def note_run(self, run: ColumnBatch, last: Message) -> bool:
        """Number all rows of a run, of which ``last`` is the newest, as ``note`` would one by one."""
        self.number += len(run.contents)
        self._last = last
        if last.seq:
            self._numbered = (self.number, last.epoch, last.seq)
        for name, value in last_values(run):
            self._fields[name] = (self.number, value)  # nobody stands between two rows of a run
        return self.full

    @property
    def full(self) -> bool:
        """True when more fields are gathered than may be."""
        return len(self._fields) > SNAPSHOT_FIELDS_MAX

    def since(self, number: int) -> Message | None:
        """Return one message for all that came after ``number``; None when nothing did.

        Its position is that of the newest numbered message among them (0 when all were of standard quality).
        """
        last = self._last
        if last is None or self.number <= number:
            return None
        if self.number == number + 1:
            return last
        fields: Fields = {name: value for name, (set_by, value) in self._fields.items() if set_by > number}
        set_by, epoch, seq = self._numbered
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
        )

    def fields_after(self, fields: Collection[str]) -> int:
        """Return how many field names the state would hold after these were added."""
        return len(self._fields) + sum(1 for name in fields if name not in self._fields)

    def forget(self, number: int) -> None:
        """Drop the fields that no group needs any more: those set at ``number`` or before."""
        self._fields = {name: entry for name, entry in self._fields.items() if entry[0] > number}
