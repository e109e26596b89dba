"""Bytes to protocol values and back, in both wire forms (protocol.md 1.2 to 1.5, 3 to 5)."""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any, Literal, TypeVar, get_args

import msgspec

from .errors import BadFrame, InvalidMessage
from .limits import FIELD_NAME_BYTES_MAX, FIELDS_MAX
from .messages import (
    AnyAnswer,
    AnyCommand,
    Asked,
    Data,
    Fields,
    GiveReply,
    MakeRequest,
    Message,
    Meta,
    Publish,
    Response,
    Value,
)

Form = Literal["json", "msgpack", "sse", "stream", "poll", "mqtt", "mqtt5"]
JSON: Form = "json"
MSGPACK: Form = "msgpack"
SSE: Form = "sse"
"""JSON, each value the data of an event of an event stream (core/events/framing.py), and described as it leaves."""
STREAM: Form = "stream"
"""JSON, each value the data of an event, as it is: a session over HTTP (docs/reference/sessions.md)."""
POLL: Form = "poll"
"""JSON, each value a line: a session over HTTP whose client asks for what has come."""

MQTT: Form = "mqtt"
MQTT5: Form = "mqtt5"
"""MQTT 3.1.1 and 5: commands and answers are MessagePack on their way within the sidecar, messages are packets
(core/mqtt/records.py)."""

JSON_FORMS: frozenset[Form] = frozenset((JSON, SSE, STREAM, POLL))
"""Forms in which binary values are maps."""

MQTT_FORMS: frozenset[Form] = frozenset((MQTT, MQTT5))

FORMS: tuple[Form, ...] = (JSON, MSGPACK)
"""The forms that a client may choose for its WebSocket."""

SUBPROTOCOLS: dict[str, Form] = {"fastpath.v1.json": JSON, "fastpath.v1.msgpack": MSGPACK}
"""The WebSocket subprotocols and the form that each stands for (protocol.md 1.2)."""


STAND_IN, LIVE_STAND_IN = "stand_in", "live_stand_in"
"""Kinds of a message, beside those of protocol.md 5.2: a snapshot that stands for what its reader has missed, and the
same for all readers. Only who sees no numbers is told so."""

_OPS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyCommand))
"""The commands of protocol.md 3, by their ``op``."""


_Coder = TypeVar("_Coder")


HALF_A_CHARACTER = "half a character (a surrogate without its other half) is no text"
"""Reason why a command is refused that has one: nobody can be sent it, and UTF-8 has no form of it."""

_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
"""Pattern of what begins with a backslash in JSON, so that one that is escaped itself begins nothing; a group for half
of a pair."""


class _Numbered(msgspec.Struct):
    """Just enough of a refused command to answer it by its id."""

    id: int | None = None


def _of_forms(as_json: _Coder, as_msgpack: _Coder) -> dict[Form, _Coder]:
    return {form: as_json if form in JSON_FORMS else as_msgpack for form in get_args(Form)}


_packers = _of_forms(msgspec.json.Encoder().encode, msgspec.msgpack.Encoder().encode)
_commands = _of_forms(msgspec.json.Decoder(AnyCommand).decode, msgspec.msgpack.Decoder(AnyCommand).decode)
_answers = _of_forms(msgspec.json.Decoder(AnyAnswer).decode, msgspec.msgpack.Decoder(AnyAnswer).decode)
_anything = _of_forms(msgspec.json.Decoder().decode, msgspec.msgpack.Decoder().decode)
_ids = _of_forms(msgspec.json.Decoder(_Numbered).decode, msgspec.msgpack.Decoder(_Numbered).decode)


COMMANDS = _commands
"""Decoders of commands by their form, for who has much to decode; ``decode_command`` says what is wrong with one that
makes it raise one of UNDECODED."""

UNDECODED = (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_command(data: bytes, form: Form) -> AnyCommand:
    """Read one command of a client (protocol.md 3).

    Raises BadFrame when the bytes are no map in this form, and InvalidMessage when they are a map but no valid command:
    then the connection goes on.
    """
    try:
        command: AnyCommand = _commands[form](data)
    except msgspec.ValidationError as error:
        raw = _decode_anything(_mended(data, form) or data, form)
        if not isinstance(raw, dict):
            raise BadFrame("a command is a map with the key op") from None
        op = raw.get("op")
        if isinstance(op, str) and op not in _OPS:
            raise InvalidMessage("invalid", f'unknown op "{op[:40]}"') from None
        raise InvalidMessage("invalid", _plain(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if (mended := _mended(data, form)) is not None:
            decode_command(mended, form)  # what is wrong with it besides is told first
            raise InvalidMessage("invalid", HALF_A_CHARACTER) from None
        if isinstance(error, UnicodeDecodeError) and command_id(data, form) is not None:
            raise InvalidMessage("invalid", "a text that is not UTF-8") from None
        raise BadFrame(f"not {form}: {error}") from None
    return command


def command_id(data: bytes, form: Form) -> int | None:
    """Return the id of a command that could not be decoded, if it has one."""
    try:
        return _ids[form](data).id
    except (msgspec.DecodeError, UnicodeDecodeError):
        mended = _mended(data, form)
        return None if mended is None else command_id(mended, form)


def _mended(data: bytes, form: Form) -> bytes | None:
    """Return JSON with another character in the place of each half of one; None where there is none."""
    if form not in JSON_FORMS or b"\\u" not in data:
        return None
    mended = _ESCAPES.sub(lambda found: b"\\ufffd" if found[1] else found[0], data)
    return mended if mended != data else None


def encode(value: AnyCommand | AnyAnswer, form: Form) -> bytes:
    """Return a command or answer as bytes."""
    if form in JSON_FORMS and isinstance(value, _CARRYING):
        value = msgspec.structs.replace(
            value, content=_json_value(value.content), fields={name: _json_value(v) for name, v in value.fields.items()}
        )
    return _packers[form](value)


def decode_server(data: bytes, form: Form) -> AnyAnswer | Data:
    """Read what a server sent: an answer or event, or a message (protocol.md 4, 5); raise BadFrame."""
    try:
        raw = _decode_anything(data, form)
        if not isinstance(raw, list):
            answer: AnyAnswer = _answers[form](data)
            if isinstance(answer, _CARRYING):
                content, fields = check_value(answer.content, form), check_fields(answer.fields, form)
                return msgspec.structs.replace(answer, content=content, fields=fields)
            return answer
        return _data(raw, form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidMessage) as error:
        raise BadFrame(f"not a frame of this protocol: {error}") from None


def encode_data(data: Data, form: Form) -> bytes:
    """Return a message as bytes, from its parts on the wire (protocol.md 5.1)."""
    return _encode_row(data.sid, data.seq, data.t, data.content, data.fields, data.meta, form)


def encode_message(message: Message, sid: int, base: int, form: Form, kind: str = "") -> bytes:
    """Return a message as bytes for the subject id ``sid``; ``kind`` is empty for an update (protocol.md 5)."""
    fields = message.fields
    if message.plain and not kind:
        # The common case, and the only one on the hot path: nothing that differs from the default.
        row: list[Any] = [sid, message.seq, message.time - base, message.content]
        if fields:
            row.append(fields)
        return _packers[form](row)
    meta = Meta(
        kind=kind,
        retained=message.retained,
        reply_to=message.reply_to or "",
        closure=message.closure or "",
        as_of=message.as_of,
        removed=message.removed,
        traceparent=message.traceparent or "",
    )
    return _encode_row(sid, message.seq, message.time - base, message.content, fields or {}, meta, form)


def check_value(raw: Any, form: Form) -> Value:
    """Return content or a field's value from its decoded form (protocol.md 1.4); raise InvalidMessage."""
    if isinstance(raw, str):
        return raw
    if form not in JSON_FORMS:
        if isinstance(raw, bytes):
            return raw
    elif isinstance(raw, dict) and len(raw) == 1 and isinstance(raw.get("b"), str):
        try:
            return a2b_base64(raw["b"], strict_mode=True)
        except (Base64Error, ValueError):
            raise InvalidMessage("invalid", 'a binary value is {"b": base64}, padded') from None
    raise InvalidMessage("invalid", "content and field values are text or binary")


def check_fields(raw: Any, form: Form, fields_max: int = FIELDS_MAX) -> Fields:
    """Return the fields of a publication (features.md A2); raise InvalidMessage."""
    if not raw:
        return {}
    if not isinstance(raw, dict):
        raise InvalidMessage("invalid", "fields is a map of names to values")
    if len(raw) > fields_max:
        raise InvalidMessage("too_large", f"more than {fields_max} fields")
    for name, value in raw.items():
        if not isinstance(name, str) or not 0 < len(name) <= FIELD_NAME_BYTES_MAX:
            raise InvalidMessage("invalid", f"a field's name is a text of 1 to {FIELD_NAME_BYTES_MAX} characters")
        if type(value) is not str:
            raw[name] = check_value(value, form)
    return raw


def _decode_anything(data: bytes, form: Form) -> Any:
    try:
        return _anything[form](data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"not {form}: {error}") from None


def _encode_row(sid: int, seq: int, t: int, content: Value, fields: Fields, meta: Meta, form: Form) -> bytes:
    row: list[Any] = [sid, seq, t, content]
    if form in JSON_FORMS:
        row[3] = _json_value(content)
        fields = {name: _json_value(value) for name, value in fields.items()}
    extra = msgspec.to_builtins(meta)
    if extra:
        row += [fields or None, extra]
    elif fields:
        row.append(fields)
    return _packers[form](row)


def _data(raw: list[Any], form: Form) -> Data:
    if not 4 <= len(raw) <= 6 or not all(type(number) is int for number in raw[:3]):
        raise BadFrame("a message is [sid, seq, t, content, fields, meta]")
    meta = msgspec.convert(raw[5], Meta) if len(raw) == 6 else Meta()
    # A snapshot, or what came within an interval, has the fields of many publications.
    fields = check_fields(raw[4], form, fields_max=sys.maxsize) if len(raw) >= 5 else {}
    return Data(sid=raw[0], seq=raw[1], t=raw[2], content=check_value(raw[3], form), fields=fields, meta=meta)


def _json_value(value: Any) -> Any:
    return {"b": b64encode(value).decode()} if isinstance(value, bytes) else value


def _plain(error: msgspec.ValidationError) -> str:
    """Return msgspec's words without its notation for the root: ``Expected `int` - at `$.id` `` becomes ``… at
    `id```."""
    return str(error).replace("`$.", "`").replace(" - at `$`", "")


_CARRYING = (Publish, MakeRequest, GiveReply, Asked, Response)
"""Types of commands and answers that carry content and fields."""
