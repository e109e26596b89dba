"""Everything on the wire, as values: the message, the commands, the answers and events of protocol.md 3 to 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec import Meta as Bounds

from .limits import FIELD_NAME_BYTES_MAX, FIELDS_MAX, REQUEST_MS

Value = str | bytes
"""Content or a field's value: UTF-8 text or bytes (protocol.md 1.4)."""

Fields = dict[str, Value]

if TYPE_CHECKING:
    _WireFields = Fields
    _NotOnTheWire = int
else:
    _Name = Annotated[str, Bounds(min_length=1, max_length=FIELD_NAME_BYTES_MAX)]
    _WireFields = Annotated[dict[_Name, str], Bounds(max_length=FIELDS_MAX)]
    _NotOnTheWire = Annotated[int, Bounds(ge=1, le=0)]

GUARANTEED = "guaranteed"
STANDARD = "standard"


class Message(Struct, array_like=True, gc=False, eq=False):
    """One publication, and after acceptance its position; immutable by convention once delivered.

    ``time`` is in ms since 1970; ``epoch`` and ``seq`` are 0 until numbered, and stay 0 for standard quality. The
    first four attributes are a publisher's row as it comes (protocol.md 6.2), so that a batch is decoded straight
    into messages; no row can set the others, because the type of ``epoch`` accepts nothing from the wire. ``size`` is
    what the content and the fields take in bytes, and ``plain`` says that they are texts and nothing differs from the
    default: ``weigh`` sets both, or who makes the message and knows them; nothing but a trace comes to it then,
    before it is admitted. ``publication`` is the publisher's number of the publication, 0 for none, and ``publisher``
    then the key of whom it counts for (core/cache/deduplication.py). With ``replace`` no field of before stays in the
    snapshot; a message that is ``removed`` ends its subject (features.md A12): it has no content, is retained and
    replaces, and its fields are in no snapshot. ``traceparent`` is the context of the trace that it belongs to
    (protocol.md 5.5).
    """

    subject: str
    content: Any
    fields: _WireFields | None = None
    meta: dict[str, Any] | None = None
    epoch: _NotOnTheWire = 0
    seq: int = 0
    time: int = 0
    size: int = 0
    plain: bool = False
    retained: bool = True
    qos: str = GUARANTEED
    reply_to: str | None = None
    closure: str | None = None
    as_of: Any = None
    publisher: str | None = None
    publication: int = 0
    replace: bool = False
    removed: bool = False
    traceparent: str | None = None

    def weigh(self) -> int:
        """Set ``size`` and ``plain``; the size."""
        content: Any = self.content
        fields: Any = self.fields
        try:
            text = "".join((content, *fields, *fields.values())) if fields else "" + content
        except TypeError:  # a value is bytes
            values = (content, *fields, *fields.values()) if fields else (content,)
            size = sum(len(v) if isinstance(v, bytes) else len(v.encode(errors="replace")) for v in values)
        else:
            size = len(text) if text.isascii() else len(text.encode(errors="replace"))
            self.plain = (
                self.retained
                and self.reply_to is None
                and self.closure is None
                and self.as_of is None
                and not self.removed
                and self.traceparent is None
            )
        self.size = size
        return size

    def demote(self) -> None:
        """Give the message standard quality, whatever was asked for; before it is numbered."""
        self.qos = STANDARD

    def __repr__(self) -> str:
        return f"<Message {self.subject} {self.epoch}/{self.seq} {self.content!r} {self.fields or ''}>"


# Commands, protocol.md 3. The order of the attributes is the order on the wire.


class Command(Struct, tag_field="op", omit_defaults=True, kw_only=True):
    """Base of what a client asks; ``id`` comes back in the answer."""


class Connect(Command, tag="connect", kw_only=True):
    """protocol.md 3.1."""

    id: int
    token: str = ""
    client: str = ""
    publisher: str = ""


class Subscribe(Command, tag="subscribe", kw_only=True):
    """protocol.md 3.2."""

    id: int
    subjects: list[str]
    history: int = 0
    conflation: int = 0
    slow: str = "close"
    since: dict[str, tuple[int, int]] = {}


class Unsubscribe(Command, tag="unsubscribe", kw_only=True):
    """protocol.md 3.3."""

    id: int
    subjects: list[str]


class Publish(Command, tag="publish", kw_only=True):
    """protocol.md 3.4; in JSON binary values are already ``{"b": …}`` maps here."""

    id: int | UnsetType = UNSET
    subject: str
    content: Any
    fields: dict[str, Any] = {}
    retained: bool = True
    qos: str = GUARANTEED
    reply_to: str = ""
    closure: str = ""
    publication: int = 0
    replace: bool = False
    removed: bool = False
    traceparent: str = ""


class Token(Command, tag="token", kw_only=True):
    """protocol.md 3.5."""

    id: int
    token: str


class Ping(Command, tag="ping", kw_only=True):
    """protocol.md 3.6."""

    id: int


class Presence(Command, tag="presence", kw_only=True):
    """protocol.md 3.9; without a subject: who is online."""

    id: int
    subject: str = ""


class Advertise(Command, tag="advertise", kw_only=True):
    """protocol.md 3.10."""

    id: int
    patterns: list[str]


class Respond(Command, tag="respond", kw_only=True):
    """protocol.md 3.11."""

    id: int
    patterns: list[str]


class MakeRequest(Command, tag="request", kw_only=True):
    """protocol.md 3.12; ``timeout`` is in ms, and in JSON binary values are ``{"b": …}`` maps here."""

    id: int
    subject: str
    content: Any
    fields: dict[str, Any] = {}
    timeout: int = REQUEST_MS
    replies: int = 1


class GiveReply(Command, tag="reply", kw_only=True):
    """protocol.md 3.13; in JSON binary values are ``{"b": …}`` maps here."""

    id: int | UnsetType = UNSET
    to: str
    content: Any = ""
    fields: dict[str, Any] = {}
    more: bool = False
    error: str = ""
    reason: str = ""


AnyCommand = (
    Connect
    | Subscribe
    | Unsubscribe
    | Publish
    | Token
    | Ping
    | Presence
    | Advertise
    | Respond
    | MakeRequest
    | GiveReply
)


# Answers and events, protocol.md 4.


class Answer(Struct, tag_field="op", omit_defaults=True, kw_only=True):
    """Base of what the server says besides messages."""


class Connected(Answer, tag="connected", kw_only=True):
    """protocol.md 4.1."""

    id: int
    server: str
    epoch: int
    user: str | UnsetType = UNSET
    time: int
    base: int
    ping_ms: int
    expires: int | UnsetType = UNSET
    frame_bytes: int | UnsetType = UNSET


class Result(Struct, omit_defaults=True, kw_only=True):
    """The outcome of a subscription to one subject (protocol.md 4.2).

    ``rights``, of a pattern, is how much of it may be read, where it is not all.
    """

    subject: str
    pattern: str = ""
    sid: int | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    recovery: str = ""
    messages: int = 0
    conflation: int = 0
    error: str = ""
    reason: str = ""
    retry_ms: int = 0
    rights: str = ""


class Subscribed(Answer, tag="subscribed", kw_only=True):
    """protocol.md 4.2; without ``id`` when a waiting subscription starts by itself."""

    id: int | UnsetType = UNSET
    results: list[Result]


class Unsubscribed(Answer, tag="unsubscribed", kw_only=True):
    """protocol.md 4.3."""

    id: int
    subjects: list[str]


class Published(Answer, tag="published", kw_only=True):
    """protocol.md 4.4."""

    id: int | UnsetType = UNSET
    closure: str
    status: str
    reason: str = ""
    epoch: int | UnsetType = UNSET
    seq: int | UnsetType = UNSET


class Renewed(Answer, tag="renewed", kw_only=True):
    """protocol.md 4.5."""

    id: int
    user: str
    expires: int | UnsetType = UNSET


class Pong(Answer, tag="pong", kw_only=True):
    """protocol.md 4.6."""

    id: int
    time: int


class Revoked(Answer, tag="revoked", kw_only=True):
    """protocol.md 4.7."""

    subjects: list[str]
    reason: str


class Epoch(Answer, tag="epoch", kw_only=True):
    """protocol.md 4.8."""

    sid: int
    epoch: int
    seq: int


class Base(Answer, tag="base", kw_only=True):
    """protocol.md 4.9."""

    base: int


class Expiring(Answer, tag="expiring", kw_only=True):
    """protocol.md 4.10."""

    expires: int


class Notice(Answer, tag="notice", kw_only=True):
    """protocol.md 4.11."""

    code: str
    text: str
    servers: list[tuple[str, int]] = []


class Error(Answer, tag="error", kw_only=True):
    """protocol.md 4.12."""

    id: int | UnsetType = UNSET
    code: str
    reason: str


class Lagging(Answer, tag="lagging", kw_only=True):
    """protocol.md 4.13."""

    sids: list[int]


class CaughtUp(Answer, tag="caught_up", kw_only=True):
    """protocol.md 4.13."""

    sids: list[int]


class User(Struct, kw_only=True):
    """A user who is present, and with how many connections (protocol.md 4.14)."""

    user: str
    connections: int


class Present(Answer, tag="present", kw_only=True):
    """protocol.md 4.14."""

    id: int
    subject: str = ""
    users: list[User]
    anonymous: int = 0
    more: int = 0
    stale: bool = False


class Offer(Struct, omit_defaults=True, kw_only=True):
    """The outcome for a pattern that was advertised (protocol.md 4.15)."""

    pattern: str
    error: str = ""
    reason: str = ""


class Advertised(Answer, tag="advertised", kw_only=True):
    """protocol.md 4.15."""

    id: int
    results: list[Offer]


class Interest(Answer, tag="interest", kw_only=True):
    """protocol.md 4.15."""

    subjects: list[str]
    wanted: bool


class Responding(Answer, tag="responding", kw_only=True):
    """protocol.md 4.16."""

    id: int
    results: list[Offer]


class Asked(Answer, tag="asked", kw_only=True):
    """protocol.md 4.17; ``timeout`` is in ms."""

    to: str
    subject: str
    content: Any
    fields: dict[str, Any] = {}
    timeout: int
    replies: int = 1
    user: str = ""


class Over(Answer, tag="over", kw_only=True):
    """protocol.md 4.17."""

    to: str
    reason: str


class Replied(Answer, tag="replied", kw_only=True):
    """protocol.md 4.18."""

    id: int
    status: str
    reason: str = ""


class Response(Answer, tag="response", kw_only=True):
    """protocol.md 4.19; ``own``: the error is the server's own, and no responder's."""

    id: int
    content: Any = ""
    fields: dict[str, Any] = {}
    more: bool = False
    error: str = ""
    reason: str = ""
    own: bool = False


AnyAnswer = (
    Connected
    | Subscribed
    | Unsubscribed
    | Published
    | Renewed
    | Pong
    | Revoked
    | Epoch
    | Base
    | Expiring
    | Notice
    | Error
    | Lagging
    | CaughtUp
    | Present
    | Advertised
    | Interest
    | Responding
    | Asked
    | Over
    | Replied
    | Response
)


class Meta(Struct, omit_defaults=True, kw_only=True):
    """The parts of a message that differ from the default (protocol.md 5.2)."""

    kind: str = ""
    retained: bool = True
    reply_to: str = ""
    closure: str = ""
    as_of: Any = None
    removed: bool = False
    traceparent: str = ""


class Data(Struct, kw_only=True):
    """A message as it stands on the wire (protocol.md 5.1), before its id and time are resolved."""

    sid: int
    seq: int
    t: int
    content: Value
    fields: Fields
    meta: Meta
