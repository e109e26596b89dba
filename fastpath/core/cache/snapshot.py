"""Merge a message into its subject's snapshot (features.md A3): the newest content, and each field's newest value."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from ..protocol.columns import ColumnBatch, last_values
from ..protocol.limits import SNAPSHOT_FIELDS_MAX
from ..protocol.messages import Fields, Message, Value

EXACT_FROM_BYTES = 1 << 20
"""Bytes up to which it is enough to know what a snapshot weighs at most, which costs nothing: the sum of what was
merged. What is larger is weighed, and each message that is merged into it, too."""


class Snapshot:
    """The state of a subject: its newest retained message, and the fields of all of them.

    Where the newest one has ``removed`` the subject, the state says that and nothing else: it is no snapshot for
    anybody, and what follows begins with nothing. ``bytes_most`` is what its content and its fields, names and values,
    take at most.
    """

    __slots__ = ("_exact", "_fields", "bytes_most", "newest")

    def __init__(self, message: Message) -> None:
        self.newest = message
        self._fields: Fields | None = dict(message.fields) if message.fields and not message.removed else None
        self.bytes_most = message.size or weight(message.content, message.fields)
        self._exact = False

    @property
    def removed(self) -> bool:
        """True if the subject was removed, and nothing came since."""
        return self.newest.removed

    @property
    def fields(self) -> Fields | None:
        """Each field's newest value; whoever has kept them elsewhere sets them."""
        return self._fields

    @fields.setter
    def fields(self, fields: Fields | None) -> None:
        self._fields, self._exact = fields, False
        self.weigh()

    def merge(self, message: Message) -> None:
        """Take over the message's content and its fields; the caller skips messages that are not retained."""
        fields = message.fields
        size = message.size or weight(message.content, fields)
        if message.replace or self._fields is None:
            self.newest = message
            self._fields = dict(fields) if fields and not message.removed else None
            self.bytes_most, self._exact = size, False
            return
        self.bytes_most += size - self._replaced(fields) if self._exact else size
        self.newest = message
        if fields:
            self._fields.update(fields)
        self._heed()

    def merge_run(self, run: ColumnBatch, last: Message) -> None:
        """Take over all rows of a run, of which ``last`` is the newest; the caller skips runs that are not retained."""
        if run.replace:
            self.merge(last)
            return
        fields = dict(last_values(run)) if run.fields else None
        size = weight(last.content, fields)
        if self._fields is None:
            self.bytes_most, self._exact = size, False
        else:
            self.bytes_most += size - self._replaced(fields) if self._exact else size
        self.newest = last
        if fields:
            if self._fields is None:
                self._fields = fields
            else:
                self._fields.update(fields)
        self._heed()

    def _heed(self) -> None:
        """Weigh what has become large, and leave to sums again what has become small."""
        if not self._exact and self.bytes_most > EXACT_FROM_BYTES:
            self.weigh()
        elif self._exact and self.bytes_most < EXACT_FROM_BYTES // 4:
            self._exact = False

    def weigh(self) -> int:
        """Return what content and fields take, in bytes of UTF-8."""
        if self._exact:
            return self.bytes_most
        self.bytes_most = weight(self.newest.content, self._fields)
        self._exact = self.bytes_most > EXACT_FROM_BYTES // 4
        return self.bytes_most

    def _replaced(self, fields: Fields | None) -> int:
        """Return what the content and the values weigh that these fields, and a content, take the place of."""
        size = length(self.newest.content)
        held = self._fields
        if held and fields:
            for name in fields:
                value = held.get(name)
                if value is not None:
                    size += length(name) + length(value)
        return size

    def fields_after(self, fields: Collection[str]) -> int:
        """Return at most how many fields the snapshot would hold after merging these; exact when that matters."""
        if not self._fields:
            return len(fields)
        bound = len(self._fields) + len(fields)
        return bound if bound <= SNAPSHOT_FIELDS_MAX else len(self._fields.keys() | set(fields))

    def as_message(self, subject: str, epoch: int, seq: int) -> Message:
        """Return the snapshot as a message at the subject's position."""
        newest = self.newest
        fields = dict(self._fields) if self._fields else None
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


def length(value: Value) -> int:
    """Return the bytes of a value, or a name, in UTF-8."""
    return len(value) if isinstance(value, bytes) or value.isascii() else len(value.encode(errors="replace"))


def weight(content: Value, fields: Fields | None) -> int:
    """Return the bytes of a content and of fields, names and values."""
    return length(content) + sum(length(name) + length(value) for name, value in (fields or {}).items())


class Forecast:
    """The bytes that a snapshot will weigh with what is merged into it next; ``seen`` is how many publications to its
    subject in a batch the forecast knows of."""

    __slots__ = ("_base", "_content", "_sizes", "bytes", "seen")

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.seen = 0
        self._sizes: dict[str, int] = {}
        self._base: dict[str, Value] = (snapshot.fields or {}) if snapshot is not None else {}
        self._content = length(snapshot.newest.content) if snapshot is not None else 0
        self.bytes = snapshot.weigh() if snapshot is not None else 0

    def copy(self) -> Forecast:
        """Return another forecast that goes on from here."""
        other = Forecast(None)
        other._base, other._sizes = self._base, dict(self._sizes)
        other._content, other.bytes, other.seen = self._content, self.bytes, self.seen
        return other

    def after(self, message: Message) -> int:
        """Return the bytes with this message as well."""
        size = message.size or message.weigh()
        if message.replace:
            return size
        return self.bytes - self._content + size - sum(map(self._held, message.fields or ()))

    def take(self, message: Message) -> None:
        """Take a message that has been accepted, and will be merged."""
        self.bytes = self.after(message)
        if message.replace:
            self._base, self._sizes = {}, {}
        for name, value in (message.fields or {}).items() if not message.removed else ():
            self._sizes[name] = length(name) + length(value)
        if message.removed:
            self.bytes = 0
        self._content = length(message.content)

    def take_those_before(
        self, index: int, batch: Sequence[Message], places: Sequence[int], passed_over: Container[int]
    ) -> None:
        """Take what stands before ``index`` in the batch, of which ``places`` are those of the subject, but for what is
        ``passed_over``."""
        while places[self.seen] < index:
            if places[self.seen] not in passed_over:
                self.take(batch[places[self.seen]])
            self.seen += 1

    def _held(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            value = self._base.get(name)
            size = 0 if value is None else length(name) + length(value)
        return size
