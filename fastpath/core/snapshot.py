"""Merge a message into its subject's snapshot (FEATURES A3): the newest content, and each field's newest value."""

from __future__ import annotations

from .messages import Fields, Message, Value


class Snapshot:
    """What a subject stands at; ``seq`` and ``epoch`` are those of the newest numbered message in it."""

    __slots__ = ("content", "epoch", "fields", "seq", "time")

    def __init__(self) -> None:
        self.content: Value = ""
        self.fields: Fields | None = None
        self.epoch = 0
        self.seq = 0
        self.time = 0

    def merge(self, message: Message) -> None:
        """Take over the message's content and its fields; the caller skips messages that are not retained."""
        self.content = message.content
        self.time = message.time
        if message.seq:
            self.seq = message.seq
            self.epoch = message.epoch
        fields = message.fields
        if fields:
            if self.fields is None:
                self.fields = dict(fields)
            else:
                self.fields.update(fields)

    def fields_after(self, fields: Fields | None) -> int:
        """How many fields the snapshot would hold after merging these."""
        if not self.fields:
            return len(fields or ())
        return len(self.fields) + sum(1 for name in fields or () if name not in self.fields)

    def as_message(self, subject: str, epoch: int, seq: int) -> Message:
        """The snapshot as a message at the subject's position."""
        return Message(
            subject, self.content, dict(self.fields) if self.fields else None, epoch=epoch, seq=seq, time=self.time
        )
