"""The bytes of a journal's files: records that can be told from what a crash or a bad disk has made of them.

A file begins with ``MAGIC`` and its mark, eight random bytes. Every record begins with the mark again, so that the next
one is found behind damage, and nobody who chooses what is published can make it look like a record: he does not know
the mark. Then come the record's kind, its length twice, the second time inverted, so that a length is never believed
wrongly, and the CRC-32 of all that. The body is MessagePack.

What a write left undone is ``torn``: the file ends within a record that is good so far. All else is corrupt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import msgspec

from ...core.protocol.as_of import NO_VERSION
from ...core.protocol.columns import ColumnBatch
from ...core.protocol.messages import Message
from ...core.protocol.packets import Entry

MAGIC = b"fastpath"
MARK_BYTES = 8
START_BYTES = len(MAGIC) + MARK_BYTES

HEADER = ord("H")
"""Kind of the record that a file begins with: a ``JournalHeader``."""
MESSAGES = ord("M")
"""Messages that were numbered in one step."""
RUNS = ord("R")
"""Rows of a publisher that were numbered in one step: ``Released``."""
CLEAN = ord("C")
"""The last record of a journal that was closed in order: all before it is on the disk."""
SUBJECTS = ord("S")
"""Kind of a base's record: a list of ``Subject``."""
PUBLISHERS = ord("P")
"""Kind of a base's record: each publisher's key, last number and when that was."""
END = ord("E")
"""The last record of a base: how many subjects it has."""

VERSION = 2
"""Version of all this; a file of a later one is refused. 2: RUNS, and versions of subjects."""

LAYOUT = list(Message.__struct_fields__)
"""The attributes of a message in their order on disk; what another version wrote is read by these names."""

READ_BYTES = 1 << 20
"""Bytes of a file that are read at once; more only for a record that is larger."""

RECORD_BYTES_MAX = 1 << 30
"""A batch is far smaller; above it nothing is written."""

_HEAD = struct.Struct(">8sBIII")  # mark, kind, length, length inverted, CRC-32
HEAD_BYTES = _HEAD.size
_INVERTED = 0xFFFFFFFF
_KEEP_BYTES = 1 << 20


class JournalHeader(msgspec.Struct):
    """The description of a file in its first record.

    ``boot`` names the start of the machine that it was written in, empty where unknown, and ``inode`` the file, so that
    a copy is known to be one.
    """

    number: int
    epoch: int
    boot: str
    inode: int
    time: int
    layout: list[str]
    version: int = VERSION


class Subject(msgspec.Struct, array_like=True, gc=False):
    """The place where a subject stands, with its newest message and the fields of its snapshot."""

    subject: str
    epoch: int
    seq: int
    newest: Entry | None = None
    fields: dict[str, Any] | None = None
    version: int = NO_VERSION


class Released(msgspec.Struct, array_like=True, gc=False):
    """Runs, each with the position of its first row, of a publisher who has come to the number ``last`` with them."""

    publisher: str
    last: int
    epoch: int
    time: int
    runs: list[tuple[int, ColumnBatch]]


class JournalRecord(NamedTuple):
    """A good record; its body is to be decoded before the next one is asked for."""

    offset: int
    kind: int
    body: memoryview


class Damage(NamedTuple):
    """Bytes from ``offset`` to ``end`` that are no record."""

    offset: int
    end: int
    torn: bool


class Packer:
    """Makes records in a buffer that it uses again for the next one."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._seed = crc32(mark)
        self._buffer = bytearray()
        self._encode_into = msgspec.msgpack.Encoder().encode_into

    def pack(self, kind: int, body: Any) -> bytearray:
        """Return the record, valid until the next call; raise OverflowError for one that is too large."""
        buffer = self._buffer
        if len(buffer) > _KEEP_BYTES:
            buffer = self._buffer = bytearray()
        self._encode_into(body, buffer, HEAD_BYTES)
        length = len(buffer) - HEAD_BYTES
        if length > RECORD_BYTES_MAX:
            raise OverflowError(f"a batch of {length} bytes; the journal takes {RECORD_BYTES_MAX}")
        with memoryview(buffer) as view, view[HEAD_BYTES:] as rest:
            crc = crc32(rest, self._seed ^ kind)
        _HEAD.pack_into(buffer, 0, self._mark, kind, length, length ^ _INVERTED, crc)
        return buffer


def read_records(file: BinaryIO) -> Iterator[JournalRecord | Damage]:
    """Return everything in a file, in order, in bounded memory; nothing of what the file holds can raise an error."""
    return _Reader(file).records()


class _Reader:
    """``data[at:]`` is what has been read and not been looked at; ``data`` begins at ``base`` of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._read = file.read
        self.data = b""
        self.base = 0
        self.at = 0
        self.mark = b""

    def records(self) -> Iterator[JournalRecord | Damage]:
        damage = self._start()
        if damage is not None:
            yield damage
        unpack, mark, seed = _HEAD.unpack_from, self.mark, crc32(self.mark)
        view = memoryview(self.data)
        while True:
            at = self.at
            start = at + HEAD_BYTES
            if start <= len(view):
                own, kind, length, inverted, crc = unpack(view, at)
                if own == mark and length ^ inverted == _INVERTED:
                    end = start + length
                    if end <= len(view):
                        self.at = end
                        body = view[start:end]
                        if crc32(body, seed ^ kind) == crc:
                            yield JournalRecord(self.base + at, kind, body)
                        else:
                            yield Damage(self.base + at, self.base + end, False)
                        continue
            view.release()
            damage = self._unusual()
            view = memoryview(self.data)
            if damage is not None:
                yield damage
            elif self.at == len(self.data):
                return

    def _more(self, size: int) -> bool:
        """Have ``size`` bytes from ``at`` on; False when the file has not got so many."""
        missing = size - (len(self.data) - self.at)
        if missing > 0:
            chunks = [self.data[self.at :]]
            while missing > 0:
                chunk = self._read(max(READ_BYTES, min(missing, READ_BYTES * 16)))
                if not chunk:
                    break
                chunks.append(chunk)
                missing -= len(chunk)
            self.base += self.at
            self.at = 0
            self.data = b"".join(chunks)
        return missing <= 0

    def _start(self) -> Damage | None:
        """Learn the mark; a damaged one stands again in the first record, if that is a good one."""
        if not self._more(START_BYTES):
            self.at = len(self.data)
            return Damage(0, self.at, MAGIC.startswith(self.data[: len(MAGIC)])) if self.at else None
        self.at = START_BYTES
        self.mark = self.data[len(MAGIC) : START_BYTES]
        good = self.data.startswith(MAGIC)
        if self._more(HEAD_BYTES):
            own, kind, length, inverted, crc = _HEAD.unpack_from(self.data, self.at)
            if own != self.mark and length ^ inverted == _INVERTED and self._more(HEAD_BYTES + length):
                start = self.at + HEAD_BYTES
                if crc32(self.data[start : start + length], crc32(own) ^ kind) == crc:
                    self.mark, good = own, False
        return None if good else Damage(0, START_BYTES, False)

    def _unusual(self) -> Damage | None:
        """Decide what to do where no whole record lies at hand: read more, or name the damage. None also at the end."""
        if not self._more(HEAD_BYTES):
            left = self.data[self.at :]
            if not left:
                return None
            if self.mark.startswith(left[:MARK_BYTES]):
                return self._to_end(torn=True)
        else:
            own, _, length, inverted, _ = _HEAD.unpack_from(self.data, self.at)
            if own == self.mark and length ^ inverted == _INVERTED:
                # It is read whole, unless the file ends before.
                return None if self._more(HEAD_BYTES + length) else self._to_end(torn=True)
        return self._search()

    def _to_end(self, *, torn: bool) -> Damage:
        offset, self.at = self.base + self.at, len(self.data)
        return Damage(offset, self.base + self.at, torn)

    def _search(self) -> Damage:
        """Go on at the next mark, or at the file's end."""
        offset = self.base + self.at
        self.at += 1
        while True:
            found = self.data.find(self.mark, self.at) if self.mark else -1
            if found >= 0:
                self.at = found
                break
            self.at = max(self.at, len(self.data) - MARK_BYTES + 1)
            left = len(self.data) - self.at
            if not self._more(left + 1):
                self.at = len(self.data)
                break
        return Damage(offset, self.base + self.at, False)


_decode_header = msgspec.msgpack.Decoder(JournalHeader).decode
_decode_messages = msgspec.msgpack.Decoder(list[Entry]).decode
_decode_subjects = msgspec.msgpack.Decoder(list[Subject]).decode
_decode_publishers = msgspec.msgpack.Decoder(list[tuple[str, int, int]]).decode
_decode_released = msgspec.msgpack.Decoder(Released).decode
_decode_any = msgspec.msgpack.Decoder().decode


def read_header(record: JournalRecord) -> JournalHeader:
    """Return the header of the file; raises msgspec.DecodeError."""
    return _decode_header(record.body)


def read_messages(body: memoryview, layout: list[str]) -> list[Entry]:
    """Return the messages of a record; ``layout`` is its file's. Raise msgspec.DecodeError."""
    if layout == LAYOUT:
        return _decode_messages(body)
    return [_by_name(row, layout) for row in _decode_any(body)]


def read_subjects(body: memoryview, layout: list[str]) -> list[Subject]:
    """Return the subjects in a record of a base; raise msgspec.DecodeError."""
    if layout == LAYOUT:
        return _decode_subjects(body)
    rows = _decode_any(body)
    return [Subject(row[0], row[1], row[2], row[3] and _by_name(row[3], layout), *row[4:6]) for row in rows]


def read_released(body: memoryview) -> Released:
    """Return the runs of a record; raise msgspec.DecodeError."""
    return _decode_released(body)


def read_publishers(body: memoryview) -> list[tuple[str, int, int]]:
    """Return the publishers in a record of a base; raise msgspec.DecodeError."""
    return _decode_publishers(body)


def _by_name(row: list[Any], layout: list[str]) -> Entry:
    """Return a message that another version wrote: what that did not know has its default, what we do not know is left
    out."""
    return Entry(**{name: value for name, value in zip(layout, row, strict=False) if name in LAYOUT})


def read_at(data: bytes) -> JournalRecord | None:
    """Return the record that these bytes are, as one in a file whose place and length are known; None: they are
    none."""
    if len(data) < HEAD_BYTES:
        return None
    own, kind, length, inverted, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[HEAD_BYTES:]
    if length ^ inverted != _INVERTED or len(body) != length or crc32(body, crc32(own) ^ kind) != crc:
        return None
    return JournalRecord(0, kind, body)
