"""Length-prefixed MessagePack packets, and the publications in them (protocol.md 6.1, 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from .as_of import check_as_of
from .codec import MSGPACK, check_fields, check_value
from .columns import ColumnBatch
from .errors import BadFrame, InvalidMessage
from .limits import CLOSURE_BYTES_MAX
from .messages import GUARANTEED, STANDARD, Message
from .trace_context import read_traceparent

REPLACE_WHAT = "replace is true or false, and only for what goes into the snapshot"
"""Reason why a publication is refused that says so otherwise."""

REMOVED_WHAT = "removed is true or false; a removal has no content, and goes into the snapshot"
"""Reason why a publication is refused that says so otherwise (features.md A12)."""

ANSWER_BYTES_MAX = 1 << 30
"""No frame that a server sends comes near it: it is there to notice what is no server of ours."""

FRAME_BYTES_MAX = 4 << 20
"""A publisher's frame (protocol.md 6.1)."""

PUBLISHER_CHARS_MAX = 256
"""The name under which a publisher numbers what it publishes."""

PUBLICATION_MAX = (1 << 53) - 1
"""A publication's number is exact in JavaScript and in Redis' Lua as well."""

BATCH_MESSAGES_MAX = 10_000
"""Messages in one batch (protocol.md 6.2)."""

Position = tuple[int, int]
"""Epoch and sequence number."""

Refusal = tuple[str, str]
"""A code of protocol.md 4.4 and why."""


class Batch(msgspec.Struct, array_like=True, tag="batch"):
    """A publisher's batch in its common form, decoded in one go: every content and field a text (protocol.md 6.2)."""

    number: int
    messages: Annotated[list[Message], msgspec.Meta(max_length=BATCH_MESSAGES_MAX)]
    first: Annotated[int, msgspec.Meta(ge=0, le=PUBLICATION_MAX)] = 0
    """The publication number of the first message; the others' follow it. 0: none."""


class Stage(msgspec.Struct, array_like=True, tag="stage"):
    """A frame ``stage``, of which the runs are read later (core/broker/staged_rows.py); protocol.md 6.5."""

    number: int
    place: tuple[str, int, int, int, int]
    """Transaction, batch, partition, attempt and chunk."""
    rows: int
    runs: msgspec.Raw


class Entry(Message, array_like=True, gc=False, eq=False):
    """A message of the log between workers: here every attribute comes from the wire."""

    fields: dict[str, Any] | None = None
    epoch: int = 0


class Log(msgspec.Struct, array_like=True, tag="log"):
    """The log between workers: the position after it, messages that have been numbered, since when the first of them is
    under way (edge/runtime/delivery_latency.py), and how many of them are the server's own."""

    position: int
    messages: list[Entry]
    since: int = 0
    own: int = 0


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Any]).decode
_unpack_published = msgspec.msgpack.Decoder(Batch | Stage).decode


def unpack(data: memoryview) -> list[Any]:
    """Return any packet, as its parts."""
    return _unpack(data)


def unpack_published(data: memoryview) -> list[Any] | Batch:
    """Return a packet of a publisher: a common batch as messages, all others as their parts.

    Of a frame ``stage`` in order the place is a tuple, and the runs are the bytes that they came as.
    """
    try:
        packet = _unpack_published(data)
    except msgspec.ValidationError:
        return _unpack(data)
    if type(packet) is Batch:
        return packet
    return ["stage", packet.number, packet.place, packet.rows, bytes(packet.runs)]


def pack(packet: list[Any] | msgspec.Struct) -> bytes:
    """Return a packet with its length in front."""
    body = _pack(packet)
    return len(body).to_bytes(4, "big") + body


class Unpacker:
    """Cuts a stream into packets; remembers at most one unfinished packet."""

    __slots__ = ("_buffer", "_decode", "error", "packet_bytes_max")

    def __init__(self, packet_bytes_max: int, decode: Callable[[memoryview], Any] = unpack) -> None:
        self.packet_bytes_max = packet_bytes_max
        self._decode = decode
        self.error: BadFrame | None = None
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Return the whole packets so far.

        After a malformed one ``error`` is set and nothing more is read, but those before it are answered (protocol.md
        6.4).
        """
        packets: list[Any] = []
        if self.error is not None:
            return packets
        buffer = self._buffer
        buffer += data
        at = 0
        view = memoryview(buffer)
        try:
            while len(buffer) - at >= 4:
                size = int.from_bytes(view[at : at + 4], "big")
                if size > self.packet_bytes_max:
                    raise BadFrame(f"a frame of {size} bytes; at most {self.packet_bytes_max} are taken")
                if len(buffer) - at - 4 < size:
                    break
                packets.append(self._decode(view[at + 4 : at + 4 + size]))
                at += 4 + size
        except BadFrame as error:
            self.error = error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.error = BadFrame(f"not a MessagePack array: {error}")
        finally:
            view.release()
        if at:
            del buffer[:at]
        return packets


def read_publications(
    rows: list[Any], publisher: str | None = None, first: int = 0
) -> tuple[list[Message], dict[int, Refusal]]:
    """Return the messages of rows ``[subject, content, fields, meta]``, decoded already or not; and by their index in
    ``rows`` those that are refused.

    ``publisher`` is the key of whom the publications' numbers count for; with ``first`` the rows are numbered from it
    on, else those are that bring an ``id`` (protocol.md 6.2).
    """
    refused: dict[int, Refusal] = {}
    for index, row in enumerate(rows):
        if type(row) is Message and row.meta is None and type(row.content) is str:
            continue
        try:
            message = rows[index] = read_publication(row)
            if message.publication:
                if publisher is None:
                    raise InvalidMessage("invalid", "id needs a publisher: name one at the beginning (hello, connect)")
                message.publisher = publisher
        except InvalidMessage as error:
            refused[index] = error.code, error.reason
    if first and publisher is not None:
        for number, message in enumerate(rows, first):
            if type(message) is Message:
                message.publisher = publisher
                message.publication = number
    return [row for index, row in enumerate(rows) if index not in refused] if refused else rows, refused


def handed_in(message: Message) -> list[Any]:
    """Return a row for a message that another worker is to number: as its publisher would send it, and the publisher's
    key."""
    meta: dict[str, Any] = {"qos": message.qos}
    if not message.retained:
        meta["retained"] = False
    if message.removed:
        meta["removed"] = True
    elif message.replace:
        meta["replace"] = True
    for name, value in (
        ("reply_to", message.reply_to),
        ("closure", message.closure),
        ("as_of", message.as_of),
        ("traceparent", message.traceparent),
    ):
        if value is not None:
            meta[name] = value
    if message.publication:
        meta["id"] = message.publication
    return [message.subject, message.content, message.fields, meta, message.publisher]


def read_handed_in(row: list[Any]) -> Message:
    """Read the message of such a row; raise InvalidMessage."""
    message = read_publication(row[:4])
    message.publisher = row[4]
    return message


def publisher_key(user: str, publisher: str) -> str:
    """Return whom publication numbers count for: a publisher's own name, and no other user's."""
    return f"{len(user)}:{user}:{publisher}"


def publisher_of(key: str) -> tuple[str, str]:
    """Return the user and the name of such a key."""
    length, _, rest = key.partition(":")
    return rest[: int(length)], rest[int(length) + 1 :]


def read_publication(row: Any) -> Message:
    """Read the message of one row; raise InvalidMessage."""
    if type(row) is Message:
        content = row.content if type(row.content) is str else check_value(row.content, MSGPACK)
        return _with_meta(row.subject, content, row.fields, row.meta) if row.meta else row
    if not isinstance(row, list) or not 2 <= len(row) <= 4 or type(row[0]) is not str:
        raise InvalidMessage("invalid", "a message is [subject, content, fields, meta]")
    content = row[1] if type(row[1]) is str else check_value(row[1], MSGPACK)
    fields = check_fields(row[2], MSGPACK) if len(row) > 2 and row[2] else None
    if len(row) < 4 or not row[3]:
        return Message(row[0], content, fields)
    return _with_meta(row[0], content, fields, row[3])


def read_run(row: Any) -> ColumnBatch:
    """Read a run of rows ``[subject, contents, fields, meta]``, decoded as one already or not; raise InvalidMessage
    where it is malformed as a whole. Its rows are still to be looked at (runs.refused_rows)."""
    if type(row) is ColumnBatch:
        run = row
    else:
        try:
            run = msgspec.convert(row, ColumnBatch)
        except msgspec.ValidationError as error:
            raise InvalidMessage("invalid", f"a run is [subject, contents, fields, meta]: {error}") from None
    rows = len(run.contents)
    if any(len(column) != rows for column in (run.fields or {}).values()):
        raise InvalidMessage("invalid", "a run has as many values of each field as contents")
    if run.meta and _with_meta(run.subject, "", None, run.meta).publication:
        raise InvalidMessage("invalid", "a run has no id: its rows are numbered")
    return run


def _with_meta(subject: str, content: str | bytes, fields: dict[str, str | bytes] | None, meta: Any) -> Message:
    if not isinstance(meta, dict):
        raise InvalidMessage("invalid", "meta is a map")
    qos = meta.get("qos", GUARANTEED)
    if qos not in (GUARANTEED, STANDARD):
        raise InvalidMessage("invalid", 'qos is "guaranteed" or "standard"')
    number = meta.get("id", 0)
    if type(number) is not int or not 0 <= number <= PUBLICATION_MAX:
        raise InvalidMessage("invalid", "id is a whole number from 1 on that rises")
    for name in ("reply_to", "closure"):
        value = meta.get(name, "")
        if not isinstance(value, str) or len(value) > CLOSURE_BYTES_MAX * 2:
            raise InvalidMessage("invalid", f"{name} is a text of at most {CLOSURE_BYTES_MAX * 2} characters")
    as_of = meta.get("as_of")
    if as_of is not None:
        check_as_of(as_of)
    replace = meta.get("replace", False)
    if type(replace) is not bool or (replace and meta.get("retained") is False):
        raise InvalidMessage("invalid", REPLACE_WHAT)
    removed = meta.get("removed", False)
    if type(removed) is not bool or (removed and (content or meta.get("retained") is False)):
        raise InvalidMessage("invalid", REMOVED_WHAT)
    return Message(
        subject,
        content,
        fields,
        retained=meta.get("retained") is not False,
        qos=qos,
        reply_to=meta.get("reply_to") or None,
        closure=meta.get("closure") or None,
        as_of=as_of,
        publication=number,
        replace=replace or removed,
        removed=removed,
        traceparent=read_traceparent(meta.get("traceparent")),
    )
