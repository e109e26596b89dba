"""Merge a message into its subject's snapshot (features.md A3): the newest content, and each field's newest value."""

from __future__ import annotations

from collections.abc import Collection

from ..protocol.columns import ColumnBatch, last_values
from ..protocol.limits import SNAPSHOT_FIELDS_MAX
from ..protocol.messages import Fields, Message


class Snapshot:
    """The state of a subject: its newest retained message, and the fields of all of them.

    Where the newest one has ``removed`` the subject, the state says that and nothing else: it is no snapshot for
    anybody, and what follows begins with nothing.
    """

    __slots__ = ("fields", "newest")

    def __init__(self, message: Message) -> None:
        self.newest = message
        self.fields: Fields | None = dict(message.fields) if message.fields and not message.removed else None

    @property
    def removed(self) -> bool:
        """True if the subject was removed, and nothing came since."""
        return self.newest.removed

    def merge(self, message: Message) -> None:
        """Take over the message's content and its fields; the caller skips messages that are not retained."""
        self.newest = message
        fields = message.fields
        if message.replace:
            self.fields = dict(fields) if fields and not message.removed else None
        elif fields:
            if self.fields is None:
                self.fields = dict(fields)
            else:
                self.fields.update(fields)

    def merge_run(self, run: ColumnBatch, last: Message) -> None:
        """Take over all rows of a run, of which ``last`` is the newest; the caller skips runs that are not retained."""
        if run.replace:
            self.merge(last)
            return
        self.newest = last
        fields = dict(last_values(run)) if run.fields else None
        if fields:
            if self.fields is None:
                self.fields = fields
            else:
                self.fields.update(fields)

    def fields_after(self, fields: Collection[str]) -> int:
        """At most how many fields the snapshot would hold after merging these; exact when that matters."""
        if not self.fields:
            return len(fields)
        bound = len(self.fields) + len(fields)
        return bound if bound <= SNAPSHOT_FIELDS_MAX else len(self.fields.keys() | set(fields))

    def as_message(self, subject: str, epoch: int, seq: int) -> Message:
        """The snapshot as a message at the subject's position."""
        newest = self.newest
        fields = dict(self.fields) if self.fields else None
        removed = newest.removed
        return Message(
            subject,
            newest.content,
            fields,
            epoch=epoch,
            seq=seq,
            time=newest.time,
            as_of=newest.as_of,
            replace=removed,
            removed=removed,
        )
