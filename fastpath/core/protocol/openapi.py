"""The OpenAPI 3.1 document of HTTP on client ports, from the types and bounds of requests and answers.

Answers are made of dictionaries where they are told (core/protocol/rest.py); the types here say what is in them, and
the tests hold every answer against the document.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from .rest import (
    AS_OF_SCHEMA,
    BASE64_SCHEMA,
    KEY_CHARS_MAX,
    PAGE_MESSAGES,
    PAGE_MESSAGES_MAX,
    PUBLICATIONS_MAX,
    SESSION_NUMBER_MAX,
    SUBJECT_SCHEMA,
    SUBJECTS_MAX,
    WAIT_SECONDS_MAX,
    WANTED_SCHEMA,
    Disconnection,
    Publication,
    Requested,
    Unsubscription,
)

SCHEMA_PATH = "/api/schema/"
"""Path where the document is read."""

SCHEMA_TYPE = "application/vnd.oai.openapi+json;version=3.1"

VERSION = "1"
"""Version of the interface; a change that breaks a caller raises it."""

_PROBLEM_TYPE = "application/problem+json"

Schema = dict[str, Any]


class Binary(Struct, forbid_unknown_fields=True):
    """Bytes."""

    b: Annotated[str, Meta(description="The bytes in base64, padded", extra_json_schema=BASE64_SCHEMA)]


Text = str | Binary
Epoch = Annotated[int, Meta(description="Which numbering the position belongs to", ge=0)]
Seq = Annotated[int, Meta(description="The sequence number in the subject; 0: none", ge=0)]
AsOf = Annotated[Any, Meta(description="As of when it is true, as the publisher said", extra_json_schema=AS_OF_SCHEMA)]


class ShownMessage(Struct):
    """A message with its position."""

    subject: str
    content: Text
    fields: dict[str, Text]
    epoch: Epoch
    seq: Seq
    time: Annotated[int, Meta(description="When it was published, in ms since 1970")]
    as_of: AsOf
    kind: Literal["snapshot", "historical", "recovered"]
    retained: bool | UnsetType = UNSET
    reply_to: str | UnsetType = UNSET
    closure: str | UnsetType = UNSET
    removed: Annotated[bool, Meta(description="true: it ended the subject")] | UnsetType = UNSET
    traceparent: Annotated[str, Meta(description="The trace it belongs to (W3C Trace Context)")] | UnsetType = UNSET


class Outcome(Struct):
    """The outcome for one message; of one that is stored with its position, else with the reason."""

    status: Literal[
        "ok", "denied", "too_large", "invalid", "not_ready", "failed", "outdated", "unavailable", "stale",
        "out_of_order", "limit",
    ]  # fmt: skip
    epoch: Epoch | UnsetType = UNSET
    seq: Seq | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Outcomes(Struct):
    """An outcome for each message, in order."""

    results: list[Outcome]


class SubjectHistory(Struct):
    """The messages of one subject, and where to go on; or why there are none."""

    subject: str
    status: Literal["ok", "denied", "not_ready"]
    reason: str | UnsetType = UNSET
    recovery: Literal["recovered", "resynchronised"] | UnsetType = UNSET
    epoch: Epoch | UnsetType = UNSET
    seq: Seq | UnsetType = UNSET
    messages: list[ShownMessage] | UnsetType = UNSET
    more: bool | UnsetType = UNSET


class SubjectHistories(Struct):
    """The subjects in the order in which they were asked for, those of a pattern by name; ``next``: ask on after it."""

    subjects: list[SubjectHistory]
    next: str | UnsetType = UNSET


class PresentUser(Struct):
    """A user who is there."""

    user: str
    connections: Annotated[int, Meta(ge=1)]


class WhoIsThere(Struct):
    """The presence on a subject: the users by name, how many are anonymous, how many users more there are than are
    told."""

    subject: str
    users: list[PresentUser]
    anonymous: int
    more: int
    stale: bool


class Disconnected(Struct):
    """The number of connections that were closed, and the workers that have not answered."""

    clients: int
    publishers: int
    away: list[int]


class Ended(Struct):
    """The number of subscriptions that were ended, of how many connections, and the workers that have not answered."""

    clients: int
    subscriptions: int
    away: list[int]


class Server(Struct):
    """A server to which a client may connect, and how much it is preferred; 0: where no other answers."""

    url: str
    weight: Annotated[int, Meta(ge=0, le=100)]


class Servers(Struct):
    """The servers to which clients may connect."""

    servers: list[Server]


class ShownReply(Struct):
    """The reply of a responder."""

    content: Text
    fields: dict[str, Text] | UnsetType = UNSET


class ShownReplies(Struct):
    """The replies in the order in which they came."""

    replies: list[ShownReply]


class Problem(Struct):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="What is wrong")]
    code: (
        Annotated[str, Meta(description="Of a request: the protocol's, or the responder's own. Of a session: its own")]
        | UnsetType
    ) = UNSET
    own: Annotated[bool, Meta(description="Of a request: whether the error is the server's own")] | UnsetType = UNSET
    replies: Annotated[list[ShownReply], Meta(description="Of a request: those that came before")] | UnsetType = UNSET


_TYPES = (
    Binary,
    ShownMessage,
    Outcomes,
    SubjectHistories,
    WhoIsThere,
    Disconnected,
    Ended,
    Servers,
    ShownReplies,
    Problem,
    Publication,
    Disconnection,
    Unsubscription,
    Requested,
)

_PROBLEMS = {
    400: "The query, the body or a subject is malformed",
    401: "The token is not valid, or has ended",
    403: "No right; or a page of an origin that may not connect",
    404: "Nothing was published yet, or the subject was removed; there is no such connection or session",
    405: "Another method",
    408: "The request did not come in time",
    409: "Of a session: what stands before has not come, or is long over",
    411: "The body has no length",
    413: "The body is over the limit",
    414: "The target is too long",
    415: "The body is of another type",
    417: "An expectation but 100-continue",
    422: "The responder's own error",
    429: "Too many requests of the caller wait for their replies",
    431: "The head is too long",
    502: "Of the web port: the sidecar went away amid its answer. Of a request: the responder went away, and may have "
    "done what was asked",
    503: "Not now: no rights have come yet, the hook gave no answer, memory or places are full, or nobody responds",
    504: "Of the web port: the sidecar did not answer in time. Of a request: no reply came in time",
}
"""Errors by status."""

_UNREAD = (400, 408, 414, 431, 503)
"""Told in plain text where the first head of a connection cannot be read, as that may be a WebSocket's."""

_EVERYWHERE = (400, 401, 403, 405, 408, 414, 431, 502, 503, 504)
_WITH_BODY = (411, 413, 415, 417)

_MESSAGE = {"subject": "/scores/final", "content": "2:1", "fields": {"by": "ann"}}
_CONTENT = {"required": ["content"], "properties": {"removed": {"const": False}}}
_REMOVAL = {
    "required": ["removed"],
    "properties": {"removed": {"const": True}, "content": {"enum": ["", {"b": ""}]}, "retained": {"const": True}},
}
_POSITION = {"epoch": 1795594539979, "seq": 5}
_SHOWN = {
    **_MESSAGE, **_POSITION, "time": 1795594540086, "as_of": None, "kind": "snapshot"
}  # fmt: skip
_HISTORICAL = {**_SHOWN, "kind": "historical"}


@cache
def openapi_json() -> bytes:
    """Return the document, in JSON."""
    return msgspec.json.format(msgspec.json.encode(openapi()), indent=1)


def openapi() -> dict[str, Any]:
    """Return the document."""
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    for name in ("Disconnection", "Unsubscription"):
        schemas[name]["oneOf"] = [{"required": ["connection"]}, {"required": ["user"]}]
    schemas["Publication"]["oneOf"] = [_CONTENT, _REMOVAL]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fastpath over HTTP",
            "version": VERSION,
            "description": "Read, publish, and ask who is there: on the sidecar's client ports and on Django's web "
            "port, with the same answers and the rights of a WebSocket client.",
        },
        "servers": [{"url": "../..", "description": "The port that this document comes from"}],
        "security": [{"bearer": []}, {"query": []}, {}],
        "paths": {
            "/snapshot": {"get": _snapshot()},
            "/api/publish": {"post": _publish()},
            "/api/history": {"get": _history()},
            "/api/presence": {"get": _presence()},
            "/api/request": {"post": _request()},
            "/api/disconnect": {"post": _disconnect()},
            "/api/unsubscribe": {"post": _unsubscribe()},
            "/api/servers": {"get": _servers()},
            "/events": {"get": _events()},
            **_sessions(),
            SCHEMA_PATH: {"get": _schema()},
        },
        "components": {
            "schemas": schemas,
            "responses": {str(status): _problem(status, text) for status, text in _PROBLEMS.items()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of Django's"},
                "query": {
                    "type": "apiKey",
                    "in": "query",
                    "name": "token",
                    "description": "The same where no header can be set; addresses are logged by proxies",
                },
            },
        },
    }


def _snapshot() -> dict[str, Any]:
    return {
        "operationId": "snapshot",
        "summary": "The merged snapshot of a subject",
        "description": "The newest content, and each field's newest value.",
        "parameters": [_subject()],
        "responses": {
            "200": _answer("The snapshot", "ShownMessage", _SHOWN)
            | {"links": {"newer": _link("history", subject="{$response.body#/subject}", since=_SINCE)}},
            **_refs(*_EVERYWHERE, 404),
        },
    }


_SINCE = "{$response.body#/epoch},{$response.body#/seq}"


def _publish() -> dict[str, Any]:
    publication = {"$ref": "#/components/schemas/Publication"}
    many = {"type": "array", "items": publication, "minItems": 1, "maxItems": PUBLICATIONS_MAX}
    wrapped = {
        "type": "object",
        "properties": {"messages": many},
        "required": ["messages"],
        "additionalProperties": False,
    }
    many_more = {"messages": [_MESSAGE, {**_MESSAGE, "content": "3:1"}]}
    removal = {"subject": _MESSAGE["subject"], "removed": True}
    examples = {"one": {"value": _MESSAGE}, "many": {"value": many_more}, "removal": {"value": removal}}
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A new one for each request: a request that is repeated under it is stored once",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX, "pattern": "^[A-Za-z0-9_-]+$"},
    }
    told = {"results": [{"status": "ok", **_POSITION}, {"status": "denied", "reason": "no rule allows it"}]}
    return {
        "operationId": "publish",
        "summary": "Publish one message or many, or remove subjects",
        "description": "Answered as soon as all of them are safe, with an outcome for each in order.",
        "parameters": [key],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"oneOf": [publication, many, wrapped]}, "examples": examples},
                "application/msgpack": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": {
            "200": _answer("The outcomes", "Outcomes", told)
            | {"links": {"read": _link("snapshot", subject="$request.body#/subject")}},
            **_refs(*_EVERYWHERE, *_WITH_BODY),
        },
    }


def _history() -> dict[str, Any]:
    since = {
        "name": "since",
        "in": "query",
        "description": "EPOCH,SEQ: what is behind this position; as often as subject, in the same order",
        "schema": {
            "type": "array",
            "items": {"type": "string", "pattern": "^[0-9]{1,16},[0-9]{1,16}$"},
            "maxItems": SUBJECTS_MAX,
        },
        "example": ["1795594539979,5"],
    }
    example = {"subjects": [{"subject": "/scores/final", "status": "ok", **_POSITION, "messages": [_HISTORICAL]}]}
    example["subjects"][0]["more"] = False
    return {
        "operationId": "history",
        "summary": "Cached messages: the newest, or those behind a position",
        "description": "since stands there as often as subject, in the same order, or not at all; wait needs it. One "
        "pattern may be among the subjects: those that it covers and the caller may read come by name, and next says "
        "after which to go on. since of a pattern is 0,0: all that is cached of what is not named.",
        "parameters": [
            _subject(many=True),
            since,
            {
                "name": "after",
                "in": "query",
                "description": "With a pattern: the next of the last answer",
                "schema": {"type": "string"},
            },
            _count("limit", "Messages of each subject", 1, PAGE_MESSAGES_MAX, PAGE_MESSAGES),
            _count("wait", "With since: seconds for which the answer waits for news", 0, WAIT_SECONDS_MAX, 0),
        ],
        "responses": {"200": _answer("What is cached", "SubjectHistories", example), **_refs(*_EVERYWHERE)},
    }


def _presence() -> dict[str, Any]:
    told = {"subject": "/chat/one", "users": [{"user": "ann", "connections": 2}], "anonymous": 1, "more": 0}
    return {
        "operationId": "presence",
        "summary": "Who is online, or on a subject",
        "description": "Where presence is kept (FASTPATH_PRESENCE); elsewhere 400.",
        "parameters": [_subject(required=False)],
        "responses": {"200": _answer("Who is there", "WhoIsThere", told | {"stale": False}), **_refs(*_EVERYWHERE)},
    }


def _request() -> dict[str, Any]:
    example = {"subject": "/quotes/get", "content": "IBM", "timeout": 2000}
    told = {"replies": [{"content": "193.20", "fields": {"bid": "193.19"}}]}
    return {
        "operationId": "request",
        "summary": "Ask one of those who respond to the subject",
        "description": "Answered with the replies, or as soon as it is known that nobody responds.",
        "requestBody": _body("Requested", example),
        "responses": {
            "200": _answer("The replies", "ShownReplies", told),
            **_refs(*_EVERYWHERE, *_WITH_BODY, 422, 429),
        },
    }


def _disconnect() -> dict[str, Any]:
    return {
        "operationId": "disconnect",
        "summary": "Close a connection, or all of a user (operators)",
        "description": "With 4506 and the reason; one of connection and user. Operators are superusers.",
        "requestBody": _body("Disconnection", {"user": "ann", "reason": "maintenance"}),
        "responses": {
            "200": _answer("What was closed", "Disconnected", {"clients": 2, "publishers": 0, "away": []}),
            **_refs(*_EVERYWHERE, *_WITH_BODY, 404),
        },
    }


def _unsubscribe() -> dict[str, Any]:
    example = {"user": "ann", "subject": "/chat/**", "reason": "off topic"}
    return {
        "operationId": "unsubscribe",
        "summary": "End subscriptions of a connection, or of a user (operators)",
        "description": "Clients are told that they are revoked, with the reason; one of connection and user.",
        "requestBody": _body("Unsubscription", example),
        "responses": {
            "200": _answer("What was ended", "Ended", {"clients": 1, "subscriptions": 2, "away": []}),
            **_refs(*_EVERYWHERE, *_WITH_BODY, 404),
        },
    }


def _servers() -> dict[str, Any]:
    told = {
        "servers": [{"url": "wss://a.example.com/ws", "weight": 100}, {"url": "wss://b.example.com/ws", "weight": 50}]
    }
    return {
        "operationId": "servers",
        "summary": "Where clients may connect",
        "description": "For everybody. A client chooses among them at random, by weight.",
        "security": [{}],
        "responses": {"200": _answer("The servers", "Servers", told), **_refs(*_EVERYWHERE)},
    }


_EVENT = (
    'id: gc8AAAGiEcO0t4EAAg\ndata: {"subject":"/stocks/us/IBM","content":"193.20","fields":{},"epoch":1795594539979,'
    '"seq":5,"time":1795594540086,"kind":"update"}\n\n'
)
"""A message with the cursor behind it."""


def _events() -> dict[str, Any]:
    def query(name: str, text: str, schema: Schema) -> Schema:
        return {"name": name, "in": "query", "description": text, "schema": schema}

    number = {"type": "integer", "minimum": 0}
    return {
        "operationId": "events",
        "summary": "A stream of Server-Sent Events",
        "description": "Lasts as long as the caller stays (docs: events.md).",
        "parameters": [
            query("subjects", "Subjects and patterns with commas between them", {"type": "string"})
            | {"required": True, "example": "/stocks/us/IBM,/chat/**"},
            query("history", "The newest cached messages of each first, instead of its snapshot", number),
            query("conflation", "An interval in ms", number),
            query("slow", "What happens when you do not keep up", {"enum": ["close", "conflate"], "default": "close"}),
            query("since", "Where to go on: a cursor, or EPOCH,SEQ", {"type": "string"}),
        ],
        "responses": {
            "200": {
                "description": "The stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EVENT}},
            },
            **_refs(*_EVERYWHERE),
        },
    }


_LINES = (
    '{"session":"0-Zq8mW1kYc0b4VfO2sU7xTg","heartbeat_ms":25000,"poll_ms":25000,"frame_bytes":2162688}\n'
    '{"op":"connected","id":1,"server":"9f2c","epoch":1795594539979,"time":1795594540086,"base":1795594539979,'
    '"ping_ms":25000}\n'
)
"""The first answer of a session that polls."""

_SAID = '{"op":"connect","id":1}\n{"op":"subscribe","id":2,"subjects":["/stocks/us/IBM"]}\n'


def _sessions() -> dict[str, Any]:
    """Return the paths of sessions over HTTP (docs: sessions.md)."""
    session = {
        "name": "session",
        "in": "path",
        "required": True,
        "description": "The id: as secret as a token",
        "schema": {"type": "string", "pattern": "^[0-9]{1,4}-[A-Za-z0-9_-]{1,64}$"},
        "example": "0-Zq8mW1kYc0b4VfO2sU7xTg",
    }
    here, left = _refs(*_EVERYWHERE, 404, 409), {"204": {"description": "It has ended"}}
    lines = {"schema": {"type": "string"}}
    return {
        "/session/stream": {"get": _session_stream()},
        "/session/poll": {"get": _session_poll()},
        "/session/{session}": {
            "post": {
                "operationId": "session_say",
                "summary": "Say frames in a session, one a line",
                "description": "Answers come as frames of the session. What was not answered is repeated as it was.",
                "parameters": [
                    session,
                    _place("n", "The number of the first frame of the body, from 1 on", required=True),
                ],
                "requestBody": {
                    "required": True,
                    "content": {kind: {**lines, "example": _SAID} for kind in ("text/plain", "application/x-ndjson")},
                },
                "responses": {"204": {"description": "All frames are handled"}, **here, **_refs(*_WITH_BODY)},
            },
            "delete": {
                "operationId": "session_leave",
                "summary": "End a session",
                "parameters": [session],
                "responses": left | here,
            },
        },
        "/session/{session}/close": {
            "post": {
                "operationId": "session_close",
                "summary": "The same, for navigator.sendBeacon",
                "parameters": [session],
                "requestBody": {"content": {"text/plain": {**lines, "example": ""}}},
                "responses": left | here | _refs(*_WITH_BODY),
            }
        },
    }


def _session_stream() -> dict[str, Any]:
    first, _, frames = _LINES.partition("\n")
    told = f"event: session\ndata: {first}\n\ndata: {frames}\n"
    return {
        "operationId": "session_stream",
        "summary": "Begin a session whose frames come as a stream",
        "description": "The first event tells its terms, each other one is a frame of fastpath.v1.json "
        "(docs: sessions.md); its end is that of the session.",
        "responses": {
            "200": {
                "description": "The stream",
                "content": {"text/event-stream": {"schema": {"type": "string"}, "example": told}},
            },
            **_refs(*_EVERYWHERE),
        },
    }


def _session_poll() -> dict[str, Any]:
    asked = {
        "name": "session",
        "in": "query",
        "description": "The session; without it another one begins",
        "schema": {"type": "string"},
    }
    return {
        "operationId": "session_poll",
        "summary": "Begin a session whose frames are asked for, or ask for them",
        "description": "Held until there are frames. The first line of the first answer tells the terms, each other "
        "one is a frame.",
        "parameters": [asked, _place("ack", "With session: how many answers have arrived, from 1 on")],
        "responses": {
            "200": {
                "description": "The frames, one a line",
                "content": {"application/x-ndjson": {"schema": {"type": "string"}, "example": _LINES}},
            },
            **_refs(*_EVERYWHERE, 404, 409),
        },
    }


def _place(name: str, text: str, *, required: bool = False) -> dict[str, Any]:
    number = {"type": "integer", "minimum": 1, "maximum": SESSION_NUMBER_MAX}
    told = {"name": name, "in": "query", "required": required, "description": text, "schema": number}
    return told | {"example": 1} if required else told


def _schema() -> dict[str, Any]:
    return {
        "operationId": "schema",
        "summary": "This document",
        "security": [{}],
        "responses": {
            "200": {"description": "OpenAPI 3.1", "content": {SCHEMA_TYPE: {"schema": {"type": "object"}}}},
            **_refs(*_EVERYWHERE),
        },
    }


# Parts


def _subject(*, required: bool = True, many: bool = False) -> dict[str, Any]:
    one = WANTED_SCHEMA if many else SUBJECT_SCHEMA
    schema = {"type": "array", "items": one, "minItems": 1, "maxItems": SUBJECTS_MAX, "uniqueItems": True}
    return {
        "name": "subject",
        "in": "query",
        "required": required,
        "schema": schema if many else one,
        "example": ["/scores/final"] if many else "/scores/final",
    }


def _count(name: str, text: str, least: int, most: int, default: int) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": least, "maximum": most, "default": default}
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _body(name: str, example: Any) -> dict[str, Any]:
    return {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}, "example": example},
            "application/msgpack": {"schema": {"type": "string", "format": "binary"}},
        },
    }


def _answer(text: str, name: str, example: Any) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{name}"}
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "description": text,
        "content": {"application/json": {"schema": schema, "example": example}, "application/msgpack": binary},
    }


def _problem(status: int, text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    told: dict[str, Any] = {"description": text, "content": {_PROBLEM_TYPE: {"schema": schema}}}
    if status in _UNREAD:
        told["content"]["text/plain"] = {"schema": {"type": "string"}}
    if status in (502, 503, 504):
        told["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return told


def _refs(*statuses: int) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _link(operation: str, **parameters: str) -> dict[str, Any]:
    return {"operationId": operation, "parameters": parameters}
