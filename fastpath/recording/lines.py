"""The lines of a recording, as values and as bytes (docs/develop/recording.md, "The format")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fastpath.client.message import Message, Status
from fastpath.core.protocol.errors import FastpathError
from fastpath.core.protocol.messages import GUARANTEED, Fields, Value

VERSION = 1

LINE_BYTES_MAX = 64 << 20
"""The longest line: a message of many MiB, each byte of it escaped. What has none so long is no recording."""


_TIME_MAX = 1 << 53

if TYPE_CHECKING:
    Micros = int
    Millis = int
else:
    Micros = Annotated[int, msgspec.Meta(ge=0, le=_TIME_MAX)]
    Millis = Annotated[int, msgspec.Meta(ge=-_TIME_MAX, le=_TIME_MAX)]


class RecordingError(FastpathError):
    """A recording that cannot be written or read, in a sentence."""


class Header(msgspec.Struct, tag_field="type", tag="recording", omit_defaults=True, kw_only=True):
    """The first line of each file. ``at_us`` is when the file was begun, in µs since 1970."""

    version: int
    part: int = 1
    at_us: Micros
    server: str = ""
    subjects: list[str]
    history: int = 0
    conflation: int = 0


class BinaryValue(msgspec.Struct):
    """A binary value, as in protocol.md 1.4."""

    b: bytes


class Recorded(msgspec.Struct, tag_field="type", tag="message", omit_defaults=True, kw_only=True):
    """A recorded message.

    ``at_us`` is when it arrived at the recorder, by the recorder's clock (µs since 1970); ``time`` is the message's
    own, by the server's (ms since 1970).
    """

    at_us: Micros
    time: Millis
    subject: str
    epoch: int = 0
    seq: int = 0
    kind: str = "update"
    qos: str = GUARANTEED
    retained: bool = True
    content: str | BinaryValue
    fields: dict[str, str | BinaryValue] = {}
    reply_to: str = ""
    closure: str = ""
    as_of: Any = None
    removed: bool = False

    @property
    def value(self) -> Value:
        """The message's content, as text or bytes."""
        return self.content if isinstance(self.content, str) else self.content.b

    @property
    def values(self) -> Fields:
        """The message's fields by name, as text or bytes."""
        return {name: value if isinstance(value, str) else value.b for name, value in self.fields.items()}


class Happened(msgspec.Struct, tag_field="type", tag="status", omit_defaults=True, kw_only=True):
    """A change of status of the connection or a subscription; its names are those of docs/develop/python.md."""

    at_us: Micros
    name: str
    subject: str = ""
    pattern: str = ""
    reason: str = ""
    code: int = 0
    url: str = ""
    user: str = ""
    notice: str = ""
    count: int = 0


class End(msgspec.Struct, tag_field="type", tag="end", omit_defaults=True, kw_only=True):
    """The last line of a file that was ended in order: how many messages it has, and why it ends."""

    at_us: Micros
    messages: int
    why: str = ""


Line = Header | Recorded | Happened | End

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def encode(line: Line) -> bytes:
    """Return the line with its end; raise RecordingError for what JSON cannot say."""
    try:
        return _encoder.encode(line) + b"\n"
    except (TypeError, UnicodeEncodeError, OverflowError) as error:
        raise RecordingError(f"this cannot be recorded: {error}") from None


def decode(data: bytes) -> Line:
    """Return the value of a line; raise RecordingError for anything else."""
    try:
        line = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"no line of a recording: {error}") from None
    if isinstance(line, Header) and line.version != VERSION:
        raise RecordingError(f"a recording of version {line.version}; this program reads version {VERSION}")
    return line


def recorded(message: Message, at_us: int) -> Recorded:
    """Return the line of a message that arrived at this time."""
    return Recorded(
        at_us=at_us,
        time=message.time,
        subject=message.subject,
        epoch=message.epoch,
        seq=message.seq,
        kind=message.kind,
        qos=message.qos,
        retained=message.retained,
        content=_wire(message.content),
        fields={name: _wire(value) for name, value in message.fields.items()},
        reply_to=message.reply_to,
        closure=message.closure,
        as_of=message.as_of,
        removed=message.removed,
    )


def happened(status: Status, at_us: int) -> Happened:
    """Return the line of a status that was told at this time."""
    return Happened(
        at_us=at_us,
        name=status.name,
        subject=status.subject,
        pattern=status.pattern,
        reason=status.reason,
        code=status.code,
        url=public_address(status.url),
        user=status.user,
        notice=status.notice,
        count=status.count,
    )


def public_address(url: str) -> str:
    """Return addresses, joined by commas, without what may be secret in them: a user, a password, a token in the
    query."""
    return ",".join(map(_public, url.split(",")))


def _public(url: str) -> str:
    scheme, separator, rest = url.split("?", 1)[0].split("#", 1)[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _wire(value: Value) -> str | BinaryValue:
    return value if isinstance(value, str) else BinaryValue(value)
