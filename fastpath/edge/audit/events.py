"""What the audit knows: one struct for each kind of event, whose attributes are the keys of a line.

docs/operate/audit.md explains it.
"""

from __future__ import annotations

import base64
import socket
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

import msgspec

from ...core.broker.observers import Source
from ...core.protocol.messages import Fields, Message, Value
from ...core.telemetry.samples import Windows

KINDS = ("access", "message", "cache", "statistics")

CONTENT_BYTES_MAX = 16 << 10
"""Content and fields that are longer are not written down."""

TEXT_CHARS_MAX = 200
"""A text that a client chose for itself, such as the name of its program."""

_LAST_MS = 253_402_300_799_999  # the year 9999 ends

DJANGO = "django"
"""The connection and the user of what Django publishes."""


class Event(msgspec.Struct, omit_defaults=True, kw_only=True, gc=False):
    """Base of all; ``time`` is in ms since 1970 until it is written, then a text."""

    time: int | str
    kind: str
    event: str
    node: str
    worker: int


class AccessEvent(Event, kw_only=True, gc=False):
    """A user or address that came, went, was let in or refused."""

    connection: str
    user: str
    address: str
    transport: str = ""
    before: str = ""
    agent: str = ""
    program: str = ""
    publisher: str = ""
    token: str = ""
    expires: str = ""
    code: int = 0
    status: int = 0
    error: str = ""
    reason: str = ""
    subject: str = ""
    pattern: str = ""
    epoch: int = 0
    seq: int = 0
    history: int = 0
    recovery: str = ""
    messages: int = 0
    conflation: int = 0
    slow: str = ""
    again: bool = False
    subscriptions: int = 0


class PublicationEvent(Event, kw_only=True, gc=False):
    """A message that was numbered, or delivered without a number; ``bytes`` are those of content and fields."""

    connection: str
    user: str
    address: str
    subject: str
    epoch: int = 0
    seq: int = 0
    bytes: int
    repeated: bool = False
    content: Any = None
    fields: dict[str, Any] | None = None


class CachedEvent(Event, kw_only=True, gc=False):
    """A change of the cache, or a read of it and by whom."""

    subject: str
    epoch: int = 0
    seq: int = 0
    bytes: int = 0
    cause: str = ""
    by: str = ""
    messages: int = 0
    connection: str = ""
    user: str = ""
    address: str = ""


class FiguresEvent(Event, kw_only=True, gc=False):
    """The figures of a worker."""

    figures: dict[str, float]


class WindowsEvent(Event, kw_only=True, gc=False):
    """The statistics of all nodes together, as Django's collector told them last, at ``told`` (UTC): of each indicator
    and window the maximum, average and deviation, None before the first sample."""

    told: str
    windows: Windows


class DroppedEvent(Event, kw_only=True, gc=False):
    """Events that were not written, by kind: more than could be, or the disk took none."""

    dropped: dict[str, int]


@cache
def node_name() -> str:
    """Return what this machine calls itself: that tells the nodes of a cluster apart."""
    return socket.gethostname()


@lru_cache(maxsize=64)
def stamp(ms: int) -> str:
    """Return ISO 8601, UTC, to the millisecond; the nearest moment from 1970 to 9999 for one beyond (a token's end)."""
    ms = max(0, min(ms, _LAST_MS))
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def user_of(source: Source | None) -> str:
    """Return the user's name, empty for anonymous."""
    if source is None:
        return DJANGO
    principal = source.principal
    return principal.user if principal is not None else ""


def short(text: str) -> str:
    """Return as much of a text as is written down."""
    return text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + "…"


def content_of(message: Message) -> tuple[Any, dict[str, Any] | None]:
    """Content and fields as a line holds them: bytes as ``{"b": BASE64}`` (protocol.md 1.4); None when too long."""
    if message.size > CONTENT_BYTES_MAX:
        return None, None
    fields: Fields | None = message.fields
    return _value(message.content), {name: _value(value) for name, value in fields.items()} if fields else None


def _value(value: Value) -> Any:
    return {"b": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
