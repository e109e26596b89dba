"""What requests and answers of REST mean, as values: publications in a body, positions in a query, messages to show."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .as_of import NUMBER_MAX, check_as_of
from .codec import JSON, MSGPACK, Form, check_fields, check_value
from .errors import InvalidMessage, InvalidSubject
from .limits import (
    CLOSURE_BYTES_MAX,
    FIELD_NAME_BYTES_MAX,
    FIELDS_MAX,
    REPLIES_MAX,
    REQUEST_MS,
    SUBJECT_BYTES_MAX,
    SUBJECT_SEGMENTS_MAX,
)
from .messages import GUARANTEED, STANDARD, Message, Value
from .packets import REMOVED_WHAT, REPLACE_WHAT, Refusal
from .subject import check_wanted

PUBLICATIONS_MAX = 1000
"""Publications in one request: about ten milliseconds of the server's time."""

KEY_CHARS_MAX = 200
"""An Idempotency-Key; a UUID has 36 characters."""

SUBJECTS_MAX = 100
"""Subjects in one request for history."""

PAGE_MESSAGES_MAX = 500
"""Messages in one answer, over all its subjects: about a millisecond of the server's time."""

PAGE_MESSAGES = 100
"""The same where a request says nothing of it."""

PAGE_BYTES_MAX = 256 << 10
"""Contents and fields in one answer, over all its subjects; a message that is larger comes alone."""

WAIT_SECONDS_MAX = 30
"""Seconds for which an answer may be held back at most: proxies give up after a minute."""

SESSION_NUMBER_MAX = 999_999_999
"""The highest number of a frame, or of an answer, of a session."""

REASON_CHARS_MAX = 100
"""Characters of what a client is told when it is disconnected: a close frame has room for little more."""

RECOVERED, HISTORICAL, SNAPSHOT = "recovered", "historical", "snapshot"
"""The kinds of messages that are told here (protocol.md 5.2)."""

JSON_TYPE, MSGPACK_TYPE = "application/json", "application/msgpack"
_FORMS: dict[str, Form] = {JSON_TYPE: JSON, MSGPACK_TYPE: MSGPACK, "application/x-msgpack": MSGPACK}

_POSITION = "since is EPOCH,SEQ: two whole numbers, as an answer gave them"


# Of JSON Schema: what the checks below say of values that no type says enough of (core/protocol/openapi.py)

_SEGMENT = r"[^/*\u0000][^/\u0000]*|\*[^/*\u0000][^/\u0000]*|\*\*[^/\u0000]+"
SUBJECT_SCHEMA: dict[str, Any] = {
    "type": "string",
    "maxLength": SUBJECT_BYTES_MAX,
    "pattern": rf"^(?:/(?:{_SEGMENT})){{2,{SUBJECT_SEGMENTS_MAX}}}$",
}
"""A subject (core/protocol/subject.py)."""

_NAMED = r"[^/*\u0000]+"
WANTED_SCHEMA: dict[str, Any] = {
    "type": "string",
    "maxLength": SUBJECT_BYTES_MAX,
    "anyOf": [
        {"pattern": SUBJECT_SCHEMA["pattern"]},
        {"pattern": rf"^(?:/(?:{_NAMED}|\*)){{1,{SUBJECT_SEGMENTS_MAX - 1}}}/(?:{_NAMED}|\*\*?)$"},
        {"const": "/**"},
    ],
}
"""A subject or a pattern that a subscription can be to."""

BASE64_SCHEMA: dict[str, Any] = {
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
VALUE_SCHEMA: dict[str, Any] = {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Binary"}]}
"""Content, or a field's value (core/protocol/codec.py)."""

_TEXT = {"type": "string", "maxLength": CLOSURE_BYTES_MAX}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}
AS_OF_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        _TEXT,
        {"type": "integer", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX},
        {
            "type": "object",
            "properties": {"time": {"anyOf": [_TEXT, _NUMBER]}, "batch": _NUMBER, "job": _TEXT, "version": _NUMBER},
            "additionalProperties": False,
        },
    ]
}
"""Schema of ``as_of``: as of when a message is true (core/protocol/as_of.py)."""

_FIELDS_SCHEMA = {
    "type": ["object", "null"],
    "maxProperties": FIELDS_MAX,
    "propertyNames": {"minLength": 1, "maxLength": FIELD_NAME_BYTES_MAX},
    "additionalProperties": VALUE_SCHEMA,
}


_CONNECTION_SCHEMA = {
    "description": "WORKER.PID.NUMBER, as log, audit and pages name it",
    "pattern": r"^[0-9]{1,9}\.[0-9]{1,9}\.p?[0-9]{1,15}$",
}


class Publication(msgspec.Struct, forbid_unknown_fields=True):
    """One publication as a request has it; in JSON binary values are ``{"b": base64}`` (protocol.md 1.4)."""

    subject: Annotated[str, Meta(extra_json_schema=SUBJECT_SCHEMA)]
    content: Annotated[Any, Meta(description="Of a removal: none, or empty", extra_json_schema=VALUE_SCHEMA)] = UNSET
    fields: Annotated[dict[str, Any] | None, Meta(extra_json_schema=_FIELDS_SCHEMA)] = None
    retained: Annotated[bool, Meta(description="false: it does not go into the snapshot")] = True
    qos: Annotated[str, Meta(extra_json_schema={"enum": [GUARANTEED, STANDARD]})] = GUARANTEED
    as_of: Annotated[Any, Meta(extra_json_schema=AS_OF_SCHEMA)] = None
    reply_to: Annotated[str | None, Meta(extra_json_schema={"maxLength": SUBJECT_BYTES_MAX})] = None
    closure: Annotated[str | None, Meta(extra_json_schema={"maxLength": CLOSURE_BYTES_MAX})] = None
    replace: Annotated[bool, Meta(description="true: no field of before stays in the snapshot")] = False
    removed: Annotated[bool, Meta(description="true: the subject is removed")] = False


class Disconnection(msgspec.Struct, forbid_unknown_fields=True):
    """The client that an operator disconnects, one connection by its name or all of a user; and what they are told."""

    connection: Annotated[str | UnsetType, Meta(extra_json_schema=_CONNECTION_SCHEMA)] = UNSET
    user: Annotated[str | UnsetType, Meta(description="A user's name, exactly", extra_json_schema={"minLength": 1})] = (
        UNSET
    )
    reason: Annotated[str, Meta(extra_json_schema={"maxLength": REASON_CHARS_MAX})] = "disconnected by an operator"


class Unsubscription(msgspec.Struct, forbid_unknown_fields=True):
    """The subscriptions that an operator ends, one connection's by its name or those of a user; which; and what they
    are told."""

    subject: Annotated[str, Meta(description="A subject or a pattern", extra_json_schema=WANTED_SCHEMA)]
    connection: Annotated[str | UnsetType, Meta(extra_json_schema=_CONNECTION_SCHEMA)] = UNSET
    user: Annotated[str | UnsetType, Meta(description="A user's name, exactly", extra_json_schema={"minLength": 1})] = (
        UNSET
    )
    reason: Annotated[str, Meta(extra_json_schema={"maxLength": REASON_CHARS_MAX})] = "unsubscribed by an operator"


class Requested(msgspec.Struct, forbid_unknown_fields=True):
    """A request as the body of ``POST /api/request`` has it; ``timeout`` is in ms (protocol.md 3.12)."""

    subject: Annotated[str, Meta(extra_json_schema=SUBJECT_SCHEMA)]
    content: Annotated[Any, Meta(extra_json_schema=VALUE_SCHEMA)]
    fields: Annotated[dict[str, Any], Meta(extra_json_schema=_FIELDS_SCHEMA | {"type": "object"})] = {}
    timeout: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": WAIT_SECONDS_MAX * 1000})] = REQUEST_MS
    replies: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": REPLIES_MAX})] = 1


T = TypeVar("T", Disconnection, Unsubscription)
"""Type of what operators ask."""

_decoders = {JSON: msgspec.json.Decoder().decode, MSGPACK: msgspec.msgpack.Decoder().decode}
_encoders = {JSON: msgspec.json.Encoder().encode, MSGPACK: msgspec.msgpack.Encoder().encode}


def form_of(content_type: str) -> Form | None:
    """Return the form that a Content-Type stands for; None: none that is read here."""
    return _FORMS.get(content_type.partition(";")[0].strip().lower())


def wanted_form(accept: str) -> Form:
    """Return the form of an answer, by Accept: MessagePack for who names it, else JSON."""
    return MSGPACK if any(form_of(kind) == MSGPACK for kind in accept.split(",")) else JSON


def encode_body(value: Any, form: Form) -> bytes:
    """Return the body of an answer."""
    return _encoders[form](value)


def read_publications(data: bytes, form: Form) -> tuple[list[Any], dict[int, Refusal]]:
    """Return the publications of a body in their order, a message or the raw item that is none, and by its index why.

    Raises InvalidMessage for a body that is no list of such.
    """
    try:
        body = _decoders[form](data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage("invalid", f"the body is not {form}: {error}") from None
    if isinstance(body, dict) and "messages" in body:
        if len(body) > 1:
            raise InvalidMessage("invalid", "beside messages nothing else is read")
        body = body["messages"]
    rows = body if isinstance(body, list) else [body]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidMessage("invalid", 'the body is a message {"subject", "content", …}, or a list of some')
    if len(rows) > PUBLICATIONS_MAX:
        raise InvalidMessage("limit", f"at most {PUBLICATIONS_MAX} messages in a request")
    refused: dict[int, Refusal] = {}
    for index, row in enumerate(rows):
        try:
            rows[index] = _message(row, form)
        except InvalidMessage as error:
            refused[index] = error.code, error.reason
    return rows, refused


def read_request(data: bytes, form: Form) -> Requested:
    """Read the request of a body; raise InvalidMessage."""
    try:
        body = _decoders[form](data)
        if isinstance(body, dict):  # 2.0 is a whole number in JSON
            numbers = {name: body[name] for name in ("timeout", "replies") if isinstance(body.get(name), float)}
            body |= {name: int(value) for name, value in numbers.items() if value.is_integer()}
        asked = msgspec.convert(body, Requested)
    except msgspec.ValidationError as error:
        raise InvalidMessage("invalid", _plain(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage("invalid", f"the body is not {form}: {error}") from None
    content, fields = check_value(asked.content, form), check_fields(asked.fields, form)
    return msgspec.structs.replace(asked, content=content, fields=fields)


def shown_reply(content: Value, fields: dict[str, Value], form: Form) -> dict[str, Any]:
    """Return a reply as a body shows it."""
    return {"content": _shown(content, form), "fields": {name: _shown(value, form) for name, value in fields.items()}}


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`$.", "`").replace(" - at `$`", "")


def _message(row: dict[str, Any], form: Form) -> Message:
    try:
        item = msgspec.convert(row, Publication)
    except msgspec.ValidationError as error:
        raise InvalidMessage("invalid", _plain(error)) from None
    if item.qos not in (GUARANTEED, STANDARD):
        raise InvalidMessage("invalid", 'qos is "guaranteed" or "standard"')
    for name, value, most in (
        ("reply_to", item.reply_to, SUBJECT_BYTES_MAX),
        ("closure", item.closure, CLOSURE_BYTES_MAX),
    ):
        if value and len(value) > most:
            raise InvalidMessage("invalid", f"{name} has at most {most} characters")
    if item.as_of is not None:
        check_as_of(item.as_of)
    if item.replace and not item.retained:
        raise InvalidMessage("invalid", REPLACE_WHAT)
    if item.content is UNSET and not item.removed:
        raise InvalidMessage("invalid", "Object missing required field `content`")
    content = "" if item.content is UNSET else check_value(item.content, form)
    if item.removed and (content or not item.retained):
        raise InvalidMessage("invalid", REMOVED_WHAT)
    return Message(
        item.subject,
        content,
        check_fields(item.fields, form) or None,
        retained=item.retained,
        qos=item.qos,
        reply_to=item.reply_to or None,
        closure=item.closure or None,
        as_of=item.as_of,
        replace=item.replace or item.removed,
        removed=item.removed,
    )


def read_disconnection(data: bytes, form: Form) -> Disconnection:
    """Read the body of a request that disconnects; raise InvalidMessage."""
    return _read_operation(data, form, Disconnection)


def read_unsubscription(data: bytes, form: Form) -> Unsubscription:
    """Read the body of a request that ends subscriptions; raise InvalidMessage."""
    asked = _read_operation(data, form, Unsubscription)
    try:
        check_wanted(asked.subject)
    except InvalidSubject as error:
        raise InvalidMessage("invalid", error.reason) from None
    return asked


def _read_operation(data: bytes, form: Form, kind: type[T]) -> T:
    decode = msgspec.json.decode if form == JSON else msgspec.msgpack.decode
    try:
        asked = decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidMessage("invalid", str(error)) from None
    given = [name for name in (asked.connection, asked.user) if name is not UNSET]
    if len(given) != 1 or not given[0]:
        raise InvalidMessage("invalid", "name a connection or a user")
    if len(asked.reason) > REASON_CHARS_MAX:
        raise InvalidMessage("invalid", f"a reason has at most {REASON_CHARS_MAX} characters")
    return asked


def read_key(header: str) -> str:
    """Return the key of an Idempotency-Key, which may stand in quotes; empty without one. Raises InvalidMessage."""
    key = header[1:-1] if len(header) > 1 and header[0] == header[-1] == '"' else header
    if len(key) > KEY_CHARS_MAX or not (key.isascii() and (key.isprintable())):
        raise InvalidMessage("invalid", f"Idempotency-Key is a text of 1 to {KEY_CHARS_MAX} characters of ASCII")
    if header and not key:
        raise InvalidMessage("invalid", "Idempotency-Key is empty: send a new UUID with each request")
    return key


def read_position(text: str) -> tuple[int, int]:
    """Return epoch and sequence number of a ``since``; raise InvalidMessage."""
    epoch, comma, seq = text.partition(",")
    if not comma or not all(0 < len(part) <= 16 and part.isascii() and part.isdigit() for part in (epoch, seq)):
        raise InvalidMessage("invalid", _POSITION)
    return int(epoch), int(seq)


def read_count(name: str, text: str, least: int, most: int) -> int:
    """Read a whole number of a query; raise InvalidMessage."""
    if not (0 < len(text) <= 9 and text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise InvalidMessage("invalid", f"{name} is a whole number from {least} to {most}")
    return int(text)


def shown(message: Message, kind: str, form: Form) -> dict[str, Any]:
    """Return a message as a body shows it, with its position."""
    told: dict[str, Any] = {
        "subject": message.subject,
        "content": _shown(message.content, form),
        "fields": {name: _shown(value, form) for name, value in message.fields.items()} if message.fields else {},
        "epoch": message.epoch,
        "seq": message.seq,
        "time": message.time,
        "as_of": message.as_of,
        "kind": kind,
    }
    if not message.retained:
        told["retained"] = False
    if message.reply_to:
        told["reply_to"] = message.reply_to
    if message.closure:
        told["closure"] = message.closure
    if message.removed:
        told["removed"] = True
    if message.traceparent:
        told["traceparent"] = message.traceparent
    return told


def _shown(value: Value, form: Form) -> Any:
    return {"b": b64encode(value).decode()} if form == JSON and isinstance(value, bytes) else value


def problem(status: int, title: str, detail: str) -> dict[str, Any]:
    """Return the body of an error (RFC 9457)."""
    return {"type": "about:blank", "title": title, "status": status, "detail": detail}
