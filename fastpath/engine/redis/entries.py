"""What nodes keep in Redis, as bytes: names of keys, entries of the log, positions and snapshots (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec

from ...core.cache.snapshot import Snapshot
from ...core.protocol.as_of import readable_as_of
from ...core.protocol.messages import GUARANTEED, STANDARD, Message
from ...core.protocol.packets import Position

GROUPS = 16
"""Number of groups into which subjects are divided, each with a log of its own; fixed for the life of a data set."""

VERSION = 1
"""Version of all that is described here; ``meta`` keeps it."""

Place = tuple[int, int]
"""Place of an entry in the log of its group: epoch, and its number within, which rises by one."""

START: Place = (0, 0)
"""Place before every entry."""

MISSED = "missed"
"""Entries before these have been trimmed away before they were read."""

VOID = "void"
"""Entries that were read are not in the log: the server they came from is not the primary any more."""

Entry = list[Any]
"""``[id, [b"s", subject, b"q", seq, b"t", time, b"p", payload, …]]``, as XREAD answers; behind it may stand TRACE, and
``b"prev"`` (``before``)."""

Run = tuple[int, int, int]
"""Epoch, first and last + 1 of entries that stand in one epoch."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, IndexError, TypeError)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def group_of(subject: str) -> int:
    """Return the group of a subject."""
    return crc32(subject.encode()) % GROUPS


def meta_key(prefix: str) -> str:
    """Return the key of a hash: ``epoch``, ``rid``, ``groups``, ``version``."""
    return f"{prefix}:meta"


def log_key(prefix: str, group: int) -> str:
    """Return the key of a stream: the log of the group."""
    return f"{prefix}:l:{{{group}}}"


REPLACES = 2
"""Mark in the place of ``retained``: the message is, and replaces; a reader that does not know it takes it for true."""

REMOVES = 3
"""Mark in the same place: the message is, replaces, and ends its subject."""

TRACE = b"c"
"""The name of an entry's value that is the context of a message's trace; who does not know it passes it over."""

GONE = b"x"
"""Mark in the place of a content in the hash of snapshots: the subject was removed. A reader that does not know it
takes it for an empty text."""


def positions_key(prefix: str, group: int) -> str:
    """Return the key of a hash: where each subject of the group stands, ``epoch-seq``."""
    return f"{prefix}:s:{{{group}}}"


def snapshots_key(prefix: str, group: int) -> str:
    """Return the key of a hash: the group's snapshots, a field for the newest message and one for each field of a
    subject.

    Of a subject whose fields were replaced, as by a removal, the field without a name says how often, and as which
    names those since then are there; their values begin with ``r``, that number and a space. What has another number is
    of before.
    """
    return f"{prefix}:n:{{{group}}}"


def typed(value: str | bytes) -> bytes:
    """Return a content or a field's value in a form that still tells text from bytes."""
    return b"b" + value if isinstance(value, bytes) else b"t" + value.encode(errors="replace")


def untyped(data: bytes) -> str | bytes:
    """Return the value that ``typed`` was given."""
    return data[1:] if data[:1] == b"b" else data[1:].decode(errors="replace")


def payload(message: Message) -> bytes:
    """Return all of a message that Redis neither gives nor looks at."""
    return _encode(
        (
            message.content,
            message.fields,
            REMOVES if message.removed else REPLACES if message.replace else message.retained,
            message.reply_to,
            message.closure,
            message.as_of,
            message.publisher,
            message.publication,
        )
    )


def parse_place(data: bytes) -> Place:
    """Read an entry's id, or a subject's position: two whole numbers joined by a hyphen."""
    epoch, _, number = data.partition(b"-")
    return int(epoch), int(number)


def follow(place: Place | None, entries: Sequence[Entry]) -> tuple[list[Run], str]:
    """Return the entries that follow on from ``place`` without a gap, as runs of one epoch; and what is wrong with
    those after them: nothing, ``MISSED`` or ``VOID``. None for ``place``: the first entry may stand anywhere."""
    first, last = parse_place(entries[0][0]), parse_place(entries[-1][0])
    count = len(entries)
    if first[0] == last[0] and last[1] - first[1] == count - 1 and (place is None or first == (place[0], place[1] + 1)):
        return [(first[0], 0, count)], ""  # numbers rise, so nothing is missing between the ends either
    runs: list[Run] = []
    if place is None:
        place = (first[0], first[1] - 1)
    epoch, number = place
    start = 0
    for index, entry in enumerate(entries):
        at, n = parse_place(entry[0])
        if at == epoch:
            fault = MISSED if n != number + 1 else ""
        else:
            previous = before(entry[1]) if n == 1 else None
            if previous is None or previous > (epoch, number):
                fault = MISSED
            else:
                fault = VOID if previous < (epoch, number) else ""
            if index > start:
                runs.append((epoch, start, index))
            start = index
        if fault:
            if index > start:
                runs.append((epoch, start, index))
            return runs, fault
        epoch, number = at, n
    runs.append((epoch, start, count))
    return runs, ""


def before(pairs: Sequence[bytes]) -> Place | None:
    """Return the id of the log's last entry before the first one of an epoch."""
    place = _more(pairs, b"prev")
    return None if place is None else parse_place(place)


def _more(pairs: Sequence[bytes], name: bytes) -> bytes | None:
    """Return a value that not every entry has."""
    for index in range(8, len(pairs), 2):
        if pairs[index] == name:
            return pairs[index + 1]
    return None


def read(entries: Sequence[Entry], epoch: int) -> list[Message]:
    """Return the messages of entries of one epoch; what is no entry of this version is left out."""
    try:
        return _messages(entries, epoch)
    except _UNREADABLE:
        pass
    messages = []
    for entry in entries:
        try:
            messages += _messages([entry], epoch)
        except _UNREADABLE:
            continue
    return messages


def _messages(entries: Sequence[Entry], epoch: int) -> list[Message]:
    rows = _decode(b"\xdd" + len(entries).to_bytes(4, "big") + b"".join([entry[1][7] for entry in entries]))
    messages = []
    for (_, pairs), row in zip(entries, rows, strict=True):
        content, fields, retained, reply_to, closure, as_of, publisher, publication = row
        seq = int(pairs[3])
        context = _more(pairs, TRACE) if len(pairs) > 8 else None
        message = Message(
            pairs[1].decode(),
            content,
            fields,
            None,
            epoch if seq else 0,
            seq,
            int(pairs[5]),
            0,
            False,
            bool(retained),
            GUARANTEED if seq else STANDARD,
            reply_to,
            closure,
            as_of if as_of is None else readable_as_of(as_of),
            publisher,
            publication,
            retained in (REPLACES, REMOVES),
            retained == REMOVES,
            None if context is None else context.decode(),
        )
        message.weigh()
        messages.append(message)
    return messages


def pairs_of(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """Return the fields and values of a hash, as HSCAN answers."""
    return zip(flat[::2], flat[1::2], strict=True)


class SnapshotParts:
    """Gathers snapshots from the fields of the hash, which come in any order, some of them twice."""

    def __init__(self, oldest: int) -> None:
        self._oldest = oldest  # ms since 1970: what is older has expired
        self._newest: dict[str, Message] = {}
        self._fields: dict[str, dict[str, tuple[int, str | bytes]]] = {}
        self._rounds: dict[str, int] = {}

    def add(self, name: bytes, value: bytes) -> bool:
        """Add one field of the hash; False for what is none, which is left out."""
        try:
            self._add(name, value)
        except ValueError:
            return False
        return True

    def _add(self, name: bytes, value: bytes) -> None:
        """Add a field of the hash; raise ValueError for what is none."""
        subject, separator, field = name.decode(errors="replace").partition("\0")
        if separator and not field:
            self._rounds[subject] = int(value.partition(b" ")[0])
            return
        if separator:
            rounds = 0
            if value[:1] == b"r":
                number, _, value = value[1:].partition(b" ")
                rounds = int(number)
            self._fields.setdefault(subject, {})[field] = rounds, untyped(value)
            return
        time, epoch, seq, content = value.split(b" ", 3)
        removed = content == GONE
        message = Message(
            subject,
            untyped(content),
            None,
            epoch=int(epoch),
            seq=int(seq),
            time=int(time),
            replace=removed,
            removed=removed,
        )
        message.weigh()
        self._newest[subject] = message

    def take(self) -> dict[str, Snapshot]:
        """Return the snapshots by their subjects."""
        snapshots = {}
        for subject, message in self._newest.items():
            if message.time < self._oldest:
                continue
            snapshot = snapshots[subject] = Snapshot(message)
            if message.removed:
                continue
            own = self._rounds.get(subject, 0)
            fields = {name: value for name, (rounds, value) in self._fields.get(subject, {}).items() if rounds == own}
            snapshot.fields = fields or None
        return snapshots


def positions_of(flat: Sequence[bytes]) -> dict[str, Position]:
    """Return the positions of subjects, without what is none."""
    positions = {}
    for name, value in pairs_of(flat):
        with suppress(ValueError):
            positions[name.decode()] = parse_place(value)
    return positions
