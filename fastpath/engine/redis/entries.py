"""What nodes keep in Redis, as bytes: names of keys, entries of the log, positions and snapshots (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from ...core.cache.snapshot import Snapshot
from ...core.protocol.messages import GUARANTEED, STANDARD, Message
from ...core.protocol.packets import Position

GROUPS = 16
"""Into how many groups subjects are divided, each with a log of its own; fixed for the life of a data set."""

VERSION = 1
"""Of all that is described here; ``meta`` keeps it."""

Place = tuple[int, int]
"""Where an entry stands in the log of its group: epoch, and its number within, which rises by one."""

START: Place = (0, 0)
"""Before every entry."""

MISSED = "missed"
"""Entries before these have been trimmed away before they were read."""

VOID = "void"
"""Entries that were read are not in the log: the server they came from is not the primary any more."""

Entry = list[Any]
"""``[id, [b"s", subject, b"q", seq, b"t", time, b"p", payload, …]]``, as XREAD answers."""

Run = tuple[int, int, int]
"""Epoch, first and last + 1 of entries that stand in one epoch."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, IndexError, TypeError)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def group_of(subject: str) -> int:
    """The group of a subject."""
    return crc32(subject.encode()) % GROUPS


def meta_key(prefix: str) -> str:
    """A hash: ``epoch``, ``rid``, ``groups``, ``version``."""
    return f"{prefix}:meta"


def log_key(prefix: str, group: int) -> str:
    """A stream: the log of the group."""
    return f"{prefix}:l:{{{group}}}"


def positions_key(prefix: str, group: int) -> str:
    """A hash: where each subject of the group stands, ``epoch-seq``."""
    return f"{prefix}:s:{{{group}}}"


def snapshots_key(prefix: str, group: int) -> str:
    """A hash: the snapshots of the group, one field for the newest message and one for each field of a subject."""
    return f"{prefix}:n:{{{group}}}"


def typed(value: str | bytes) -> bytes:
    """A content or a field's value that still tells text from bytes."""
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
            message.retained,
            message.reply_to,
            message.closure,
            message.as_of,
            message.publisher,
            message.publication,
        )
    )


def parse_place(data: bytes) -> Place:
    """An entry's id, or a subject's position: two whole numbers joined by a hyphen."""
    epoch, _, number = data.partition(b"-")
    return int(epoch), int(number)


def follow(place: Place | None, entries: Sequence[Entry]) -> tuple[list[Run], str]:
    """The entries that follow on from ``place`` without a gap, as runs of one epoch; and what is wrong with those after
    them: nothing, ``MISSED`` or ``VOID``. None for ``place``: the first entry may stand anywhere."""
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
    """The id of the log's last entry before the first one of an epoch."""
    for index in range(8, len(pairs), 2):
        if pairs[index] == b"prev":
            return parse_place(pairs[index + 1])
    return None


def read(entries: Sequence[Entry], epoch: int) -> list[Message]:
    """The messages of entries of one epoch; what is no entry of this version is left out."""
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
            retained,
            GUARANTEED if seq else STANDARD,
            reply_to,
            closure,
            as_of,
            publisher,
            publication,
        )
        message.weigh()
        messages.append(message)
    return messages


def pairs_of(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    """The fields and values of a hash, as HSCAN answers."""
    return zip(flat[::2], flat[1::2], strict=True)


class SnapshotParts:
    """Gathers snapshots from the fields of the hash, which come in any order, some of them twice."""

    def __init__(self, oldest: int) -> None:
        self._oldest = oldest  # ms since 1970: what is older has expired
        self._newest: dict[str, Message] = {}
        self._fields: dict[str, dict[str, str | bytes]] = {}

    def add(self, name: bytes, value: bytes) -> None:
        """Add one field of the hash."""
        subject, separator, field = name.decode(errors="replace").partition("\0")
        if separator:
            self._fields.setdefault(subject, {})[field] = untyped(value)
            return
        time, epoch, seq, content = value.split(b" ", 3)
        message = Message(subject, untyped(content), None, epoch=int(epoch), seq=int(seq), time=int(time))
        message.weigh()
        self._newest[subject] = message

    def take(self) -> dict[str, Snapshot]:
        """The snapshots by their subjects."""
        snapshots = {}
        for subject, message in self._newest.items():
            if message.time < self._oldest:
                continue
            snapshot = snapshots[subject] = Snapshot(message)
            snapshot.fields = self._fields.get(subject)
        return snapshots


def positions_of(flat: Sequence[bytes]) -> dict[str, Position]:
    """Return the positions of subjects."""
    return {name.decode(): parse_place(value) for name, value in pairs_of(flat)}
