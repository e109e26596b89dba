"""The frame `read`: cached messages between positions, as columns, in the order of each subject (protocol.md 6.14)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as chained
from typing import Annotated, Any

import msgspec

from ...core.auth.grants import Principal
from ...core.auth.reasons import ASKED, PENDING
from ...core.auth.rules import SUBSCRIBE
from ...core.cache.cache_range import Lost, chain, is_ahead, part, span
from ...core.delivery.audience import Topic
from ...core.protocol.errors import Close, InvalidSubject, Refused
from ...core.protocol.messages import Fields, Message
from ...core.protocol.subject import check_subject
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .connection import PublisherConnection
from .positions import Positions
from .slices import Slices, Slicing

RANGES_MAX = 2000
"""Ranges in one question."""

FRAME_ROWS = 2000
"""Messages in one frame of an answer."""

FRAME_BYTES = 256 << 10
"""Bytes that the columns of a frame take together, except where one message alone takes more."""

PART_ROWS = 2000
"""Messages that are looked at between two looks at the clock."""

CELLS_MAX = 8_000
"""The same of values of fields, those included that a message does not have."""

SLICE_RANGES = 20
"""Ranges that are looked at between two looks at the clock."""

RUN_BYTES = 100
"""Bytes that a run of messages takes besides, about."""

ROW_BYTES = 24
"""Bytes that a message takes besides its text, about."""


_Number = Annotated[int, msgspec.Meta(ge=0)]


class Range(msgspec.Struct, array_like=True):
    """A part of a subject to be read: behind a place, or from the oldest on; up to a place, or to the newest."""

    subject: str
    after: tuple[_Number, _Number] | None = None
    upto: tuple[_Number, _Number] | None = None


class RangeRefused(Exception):
    """The question has no answer: a code and why."""


class Ranges:
    """Answers the frames `positions` and `read` in the process that publishers connect to."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._slicing = Slicing(runtime)
        self.positions = Positions(runtime, self._slicing)
        positions = self.positions.offers
        self.offers = Offers(frames={"read": self._ask, **positions.frames}, appeared=positions.appeared)

    def _ask(self, connection: PublisherConnection, number: int, rest: list[Any]) -> None:
        """Answer ``["read", n, ranges]``; a frame of another shape ends the connection: raise Refused."""
        many = len(rest) == 1 and isinstance(rest[0], list) and len(rest[0]) > RANGES_MAX
        try:
            [ranges] = ([],) if many else msgspec.convert(rest, tuple[list[Range]], strict=True)
        except (msgspec.ValidationError, ValueError):
            raise Refused(Close.BAD_MESSAGE, 'read is ["read", n, [[subject, after, upto], …]]') from None
        self._slicing.begin(connection)
        if many:
            self._slicing.end(connection, ["failed", number, "limit", f"over {RANGES_MAX} ranges"])
            return
        self._slicing.run(connection, self._answer(connection, number, ranges))

    def _answer(self, connection: PublisherConnection, number: int, ranges: list[Range]) -> Slices:
        told = _Answer(connection, number)
        try:
            if self._runtime.asks is not None:
                yield from self._ask_hook(connection, ranges)
            for index, one in enumerate(ranges):
                yield from self._read(told, index, one)
        except RangeRefused as failure:
            told.flush()
            self._slicing.end(connection, ["failed", number, *failure.args])
            return
        told.flush()
        self._slicing.end(connection, ["read", number, told.count])

    def _read(self, told: _Answer, index: int, wanted: Range) -> Slices:
        """Read one range; what is evicted while it is read is told as lost where it is missed."""
        topic = self._topic(wanted)
        after, upto = wanted.after, wanted.upto or (topic.epoch, topic.seq)
        check = self._checked(told.connection, wanted.subject)
        while True:
            if self._runtime.broker.grants.version != check:
                check = self._checked(told.connection, wanted.subject)
            found = span(topic, after, upto)
            messages = part(chain(topic), found.at, min(found.length, PART_ROWS))
            read = told.run(
                index, messages, [lost for lost in found.lost if not messages or lost.first <= messages[0].seq]
            )
            if read < found.length:
                yield
                after = messages[read - 1].epoch, messages[read - 1].seq
                continue
            for lost in found.lost:
                if messages and lost.first > messages[-1].seq:
                    told.lost(index, lost)
            break
        if told.looked():
            yield

    def _ask_hook(self, connection: PublisherConnection, ranges: list[Range]) -> Slices:
        """Have the hook asked about all subjects together; raise RangeRefused while it has not answered."""
        moment, grants = now(), self._runtime.broker.grants
        principal = connection.current(moment)
        waits = ""
        for count, one in enumerate(ranges, 1):
            if grants.check(principal, SUBSCRIBE, one.subject, moment) in PENDING:
                waits = one.subject
            if count % SLICE_RANGES == 0:
                yield
        if waits:
            raise RangeRefused("not_ready", f"{waits}: {ASKED}")

    def _topic(self, wanted: Range) -> Topic:
        try:
            check_subject(wanted.subject)
        except InvalidSubject as error:
            raise RangeRefused("invalid", f"{wanted.subject[:64]}: {error.reason}") from None
        broker = self._runtime.broker
        topic = broker.interest.topics.get(wanted.subject) or Topic(wanted.subject, 0, 0)
        if any(place is not None and is_ahead(topic, place) for place in (wanted.after, wanted.upto)):
            raise RangeRefused("behind", f"{wanted.subject} has not come so far here yet")
        return topic

    def _checked(self, connection: PublisherConnection, subject: str) -> int:
        """Return the version of the rights under which the subject may be read; raise RangeRefused, and Refused for the
        token."""
        moment, grants = now(), self._runtime.broker.grants
        principal: Principal = connection.current(moment)
        reason = grants.check(principal, SUBSCRIBE, subject, moment)
        if reason:
            raise RangeRefused("not_ready" if reason in PENDING else "denied", f"{subject}: {reason}")
        return grants.version


class _Answer:
    """Frames ``["rows", n, [run, …]]`` of one answer, each sent when it is full."""

    def __init__(self, connection: PublisherConnection, number: int) -> None:
        self.connection = connection
        self.count = 0
        """Messages that have been told."""
        self._number = number
        self._runs: list[list[Any]] = []
        self._rows = self._bytes = self._ranges = 0

    def looked(self) -> bool:
        """Count one more range that was looked at; return whether it is time for a look at the clock."""
        self._ranges += 1
        return self._ranges % SLICE_RANGES == 0

    def lost(self, index: int, lost: Lost) -> None:
        """Tell that these messages of the range are not there."""
        self._runs.append([index, *lost])
        self._bytes += RUN_BYTES

    def run(self, index: int, messages: list[Message], lost: list[Lost]) -> int:
        """Add the next messages of the range, and what is missing before them; return how many messages were told."""
        for one in lost:
            self.lost(index, one)
        if not messages:
            return 0
        count, size = _fitting(messages, FRAME_ROWS - self._rows, FRAME_BYTES - self._bytes)
        if count < len(messages) and self._rows:
            self.flush()
            count, size = _fitting(messages, FRAME_ROWS, FRAME_BYTES)
        messages = messages[:count]
        fields = columns([message.fields for message in messages])
        while fields is None:  # so many names that most places would be empty
            messages = messages[: max(1, len(messages) // 4)]
            fields = columns([message.fields for message in messages])
        epoch: int | list[int] = messages[0].epoch
        if messages[-1].epoch != epoch:
            epoch = [message.epoch for message in messages]
        times = [message.time for message in messages]
        contents = [message.content for message in messages]
        self._runs.append([index, messages[0].seq, epoch, times, contents, fields or None, _metas(messages) or None])
        self.count += len(messages)
        self._rows += len(messages)
        self._bytes += size + RUN_BYTES
        if self._rows >= FRAME_ROWS or self._bytes >= FRAME_BYTES:
            self.flush()
        return len(messages)

    def flush(self) -> None:
        """Send what has been gathered."""
        if self._runs:
            self.connection.reply(["rows", self._number, self._runs])
        self._runs = []
        self._rows = self._bytes = 0


def _fitting(messages: list[Message], rows: int, size_max: int) -> tuple[int, int]:
    """Return how many of the messages fit, at least one, and what they take."""
    messages = messages[: max(rows, 1)]
    size = sum([message.size for message in messages]) + ROW_BYTES * len(messages)
    while size > size_max and len(messages) > 1:
        messages = messages[: len(messages) // 2]
        size = sum([message.size for message in messages]) + ROW_BYTES * len(messages)
    return len(messages), size


def columns(rows: list[Fields | None]) -> dict[str, list[Any]] | None:
    """Return the fields of some messages as columns, nil where a message does not have one; None where that would be
    too large for more than one message."""
    first = rows[0]
    if first and len(first) * len(rows) <= CELLS_MAX:
        try:
            found = {name: [row[name] for row in rows] for name in first}  # type: ignore[index]
        except (KeyError, TypeError):
            pass
        else:
            if sum(map(len, rows)) == len(first) * len(rows):  # type: ignore[arg-type]
                return found
    present = [row for row in rows if row]
    if sum(map(len, present)) > CELLS_MAX and len(rows) > 1:
        return None
    names = dict.fromkeys(chained.from_iterable(present))
    if len(names) * len(rows) > CELLS_MAX and len(rows) > 1:
        return None
    return {name: [row.get(name) if row else None for row in rows] for name in names}


def _metas(messages: Sequence[Message]) -> dict[int, dict[str, Any]]:
    """Return by their place what of messages differs from the default, in the names of meta (protocol.md 6.2)."""
    metas = {}
    for at, message in enumerate(messages):
        if not message.plain:
            meta: dict[str, Any] = {} if message.retained else {"retained": False}
            for name, value in (
                ("reply_to", message.reply_to), ("closure", message.closure), ("as_of", message.as_of)
            ):  # fmt: skip
                if value is not None:
                    meta[name] = value
            if message.removed:
                meta["removed"] = True
            if meta:
                metas[at] = meta
    return metas
