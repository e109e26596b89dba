"""What waits for a client of MQTT: records with a head, of messages with their finished packets, of answers and gaps.

A message's record ends in its PUBLISH of QoS 0, made once for all subscribers of a version. Where a client's
subscription asks for more, the packet is changed as the record leaves (outgoing.py). Of an answer the record has the
MessagePack form of protocol.md 4.

Head: length of the record (4 bytes), kind (1); of a message or gap also flags (1), subject id (8), epoch (8), sequence
number (8), origin (8), time when it expires (8, ms), where the expiry stands in the packet (2), where its topic ends
(2). A message without a sequence number has a mark in place of the epoch, which no other one has of late.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from ..protocol.codec import LIVE_STAND_IN, MQTT5, STAND_IN, Form
from ..protocol.messages import STANDARD, Message
from . import fields
from .publications import expiry_of, payload_of, properties_of
from .reasons import V3, V5
from .topics import name_of

MESSAGE, ANSWER, GOODBYE, GAP = 1, 2, 3, 4
"""Kinds of records."""

ASSURED, RETAINED, STORED, SNAPSHOT, EMPTY, STANDS, LIVE = 1, 2, 4, 8, 16, 32, 64
"""Flags of a message: more than QoS 0 may be asked of it; it was published to be retained; it is no live one; it is
its subject's snapshot; it has neither content nor fields; it stands for messages that cannot be had any more; these
were kept from all, of whom nobody was away."""

MARK_BITS = 22
"""Bits of a mark that tell apart the messages of one subject in one ms."""

MARKS_MAX = 1000
"""Subjects and times of which it is known how many messages they had."""

_HEAD = Struct(">IBBQQQQQHH")
_SHORT = Struct(">IB")
_FLAGS = {"": 0, "historical": STORED, "recovered": STORED, "snapshot": SNAPSHOT, STAND_IN: SNAPSHOT | STANDS}
_FLAGS[LIVE_STAND_IN] = _FLAGS[STAND_IN] | LIVE
HEAD_BYTES = _HEAD.size
SHORT_BYTES = _SHORT.size


class Marks:
    """Tells messages apart that have no number, alike on all workers: the how many-th of its subject it is in its ms.

    One is encoded for all versions before the next one is.
    """

    def __init__(self) -> None:
        self._message: Message | None = None
        self._mark = 0
        self._counts: dict[tuple[int, str], int] = {}

    def of(self, message: Message) -> int:
        """Return the mark of the message, the same as long as no other one is asked about."""
        if message is not self._message:
            self._message = message
            at = message.time, message.subject
            count = self._counts[at] = self._counts.get(at, 0) + 1
            self._mark = message.time << MARK_BITS | count
            if len(self._counts) > MARKS_MAX:
                self._counts = {one: count for one, count in self._counts.items() if one[0] == message.time}
        return self._mark

    @property
    def kept(self) -> int:
        """Number of subjects and times of which it is known how many messages they had."""
        return len(self._counts)


_MARKS = Marks()


class Record(NamedTuple):
    """A message's record: its head, and the packet."""

    flags: int
    sid: int
    epoch: int
    seq: int
    origin: int
    expires: int
    expiry_at: int
    topic_end: int
    packet: bytes


def encode_record(message: Message, sid: int, base: int, form: Form, kind: str = "") -> bytes:
    """Return a message as a record; ``kind`` as in protocol.md 5.2, empty for a live one, ``STAND_IN`` or
    ``LIVE_STAND_IN``.

    The record is without a packet where the subject is no topic's.
    """
    del base
    level = V5 if form == MQTT5 else V3
    payload = payload_of(message, level)
    name = name_of(message.subject)
    topic = fields.text(name)
    expires = expiry_of(message)
    properties = b""
    if level == V5:
        found = properties_of(message) if message.fields or message.reply_to or message.traceparent else None
        if found and expires:
            found["message_expiry"] = max(0, expires - message.time) // 1000
        properties = fields.properties(found) if found else b"\0"
    remaining = fields.variable(len(topic) + len(properties) + len(payload))
    packet = b"".join((b"\x30", remaining, topic, properties, payload))
    topic_end = 1 + len(remaining) + len(topic)
    expiry_at = 0
    if expires and level == V5:
        expiry_at = packet.index(b"\x02", topic_end + _variable_bytes(packet, topic_end)) + 1
    stored = _FLAGS.get(kind, STORED)
    if message.removed and kind:
        # No snapshot, also in place of one: no retained message is empty, and this one is to be told.
        stored = STORED | stored & (STANDS | LIVE)
    flags = stored | RETAINED * message.retained | EMPTY * (not payload and not message.fields)
    if message.qos != STANDARD:
        flags |= ASSURED
    origin = origin_of(message.publisher) if message.publisher else 0
    length = HEAD_BYTES + len(packet)
    place = (message.epoch, message.seq) if message.seq else (_MARKS.of(message), 0)
    if not name:
        length, packet = HEAD_BYTES, b""
    head = _HEAD.pack(length, MESSAGE, flags, sid, *place, origin, expires, expiry_at, topic_end)
    return head + packet


def encode_answer(payload: bytes) -> bytes:
    """Return an answer, in MessagePack, as a record."""
    return _SHORT.pack(SHORT_BYTES + len(payload), ANSWER) + payload


def encode_goodbye(code: int, reason: str) -> bytes:
    """Return what a client is told last, with a close code of protocol.md 7, as a record."""
    payload = int(code).to_bytes(2) + reason.encode()
    return _SHORT.pack(SHORT_BYTES + len(payload), GOODBYE) + payload


def encode_gap(subject: str, sid: int, epoch: int, seq: int, *, live: bool) -> bytes:
    """Return a record that says that messages of the subject are missing here, up to this place, and nothing stands for
    them. ``live``: they are kept from all."""
    text = subject.encode()
    return _HEAD.pack(HEAD_BYTES + len(text), GAP, LIVE * live, sid, epoch, seq, 0, 0, 0, 0) + text


def split_records(chunk: bytes) -> list[bytes]:
    """Return the single records of a queue's chunk of whole ones."""
    records = []
    at = 0
    while at < len(chunk):
        end = at + int.from_bytes(chunk[at : at + 4])
        records.append(chunk[at:end])
        at = end
    return records


def kind_of(record: bytes) -> int:
    """Return the kind of a record."""
    return record[4]


def sid_of_record(record: bytes) -> int:
    """Return the subject id of a message's record, or of a gap; -1 for anything else."""
    return int.from_bytes(record[6:14]) if record[4] in (MESSAGE, GAP) else -1


def read_message(record: bytes) -> Record:
    """Return a message's record, taken apart; of a gap the packet is the subject."""
    return Record._make((*_HEAD.unpack_from(record)[2:], record[HEAD_BYTES:]))


def payload_of_record(record: bytes) -> bytes:
    """Return what an answer's or a goodbye's record has behind its head."""
    return record[SHORT_BYTES:]


def origin_of(publisher: str) -> int:
    """Return a number for a publisher's key, as records have it."""
    return int.from_bytes(blake2b(publisher.encode(), digest_size=8).digest()) or 1


def _variable_bytes(packet: bytes, at: int) -> int:
    end = at
    while packet[end] & 0x80:
        end += 1
    return end + 1 - at
