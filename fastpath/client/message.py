"""The messages, positions and changes of status that a client hands to the program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from fastpath.core.protocol.messages import GUARANTEED, STANDARD, Data, Fields, Present, Value


class Position(NamedTuple):
    """The place up to which a subject was read or written; subscribe with ``since`` to go on from here."""

    epoch: int
    seq: int


AsOf = str | int | dict[str, str | int]
"""Time or version for which data is true, as its publisher says (protocol.md 5.2)."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a subject, as its subscriber gets it.

    ``kind`` is ``update``, ``snapshot``, ``recovered`` or ``historical``; ``time`` is in ms since 1970;
    ``seq`` is 0 for standard quality; absent texts are empty. ``as_of`` is a text, a number, or a map of ``time``,
    ``batch``, ``job`` and ``version`` (protocol.md 5.2). ``removed``: it ended the subject, of which nothing is left;
    what comes after it begins with nothing. ``traceparent`` is the context of the trace that it belongs to, in the form
    of W3C Trace Context: whoever works on the message goes on with that trace.
    """

    subject: str
    content: Value
    fields: Fields
    epoch: int
    seq: int
    time: int
    kind: str = "update"
    retained: bool = True
    reply_to: str = ""
    closure: str = ""
    as_of: AsOf | None = None
    removed: bool = False
    traceparent: str = ""

    @property
    def qos(self) -> str:
        """``guaranteed`` or ``standard``."""
        return GUARANTEED if self.seq else STANDARD

    def json(self, field: str = "") -> Any:
        """Return what the content says in JSON, or the field of that name; raise ValueError for other text, or
        KeyError.

        The protocol has texts and bytes alone: publishers and readers have to know which subjects carry JSON.
        """
        return json.loads(self.fields[field] if field else self.content)


class Presence(NamedTuple):
    """The users who are subscribed to a subject, or online.

    ``users`` have their number of connections; it is 0 for a moment after the last one has gone. ``more`` users are not
    listed; ``stale``: what other nodes know is not complete at the moment.
    """

    users: dict[str, int]
    anonymous: int
    more: int
    stale: bool


class Reply(NamedTuple):
    """A reply to a request; a handler may return one, and need not name more than the content."""

    content: Value = ""
    fields: Fields = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as its handler gets it (protocol.md 4.17).

    ``user`` has asked, empty for anonymous; after ``timeout_seconds`` nobody waits any more. ``replies`` is how many
    are taken. Each is sent by ``reply``, but for the last, which the handler returns.
    """

    subject: str
    content: Value
    fields: Fields
    user: str
    timeout_seconds: float
    replies: int
    reply: Callable[..., None]
    """``reply(content, fields=None)``: one more reply, behind which others follow."""


def presence_of(answer: Present) -> Presence:
    """Return the presence that a server's answer describes (protocol.md 4.14)."""
    users = {user.user: user.connections for user in answer.users}
    return Presence(users, answer.anonymous, answer.more, answer.stale)


def message_of(data: Data, subject: str, epoch: int, base: int) -> Message:
    """Return the message that a frame stands for (protocol.md 5)."""
    meta = data.meta
    return Message(
        subject=subject,
        content=data.content,
        fields=data.fields,
        epoch=epoch,
        seq=data.seq,
        time=base + data.t,
        kind=meta.kind or "update",
        retained=meta.retained,
        reply_to=meta.reply_to,
        closure=meta.closure,
        as_of=meta.as_of,
        removed=meta.removed,
        traceparent=meta.traceparent,
    )


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the connection, of one subject's subscription, or what became of a publication.

    The connection: ``connected`` (``url``, ``transport``, ``user``), ``disconnected`` (``code``, ``reason``; it is
    tried again after ``retry_seconds``), ``down`` (``count`` rounds through the servers have failed), ``failed`` (it is
    not tried again),
    ``synchronised`` (after a reconnection every subject has been recovered), ``reconnect_rate_exceeded`` (``count`` in
    3 minutes), ``paused``, ``closed``, ``expiring``, ``renewed``, ``notice`` (``notice``), ``error``,
    ``not_advertised`` (``subject`` is the pattern).

    A subject, with the ``pattern`` that found it: ``subscribed``, ``recovered`` (exactly what was missed follows),
    ``resynchronised`` (the snapshot follows if there is one, or what was seen last is void), ``granted`` (the right
    came; one of these follows), ``gap`` (messages are missing and are asked for again), ``denied``, ``not_ready``,
    ``revoked`` (it waits for the right), ``partial`` (of this pattern not all may be read, and the rest waits),
    ``limited`` (this pattern finds no more, the connection has too many),
    ``lagging`` (this client does not keep up, and a subscription with ``slow="conflate"`` is conflated), ``caught_up``
    (no more).

    A publication that was given a ``closure``: ``published`` (``epoch``, ``seq``), ``publish_denied``,
    ``publish_too_large``, ``publish_failed``; its ``status`` is that of protocol.md 4.4, ``unknown`` or ``queue_full``.
    """

    name: str
    subject: str = ""
    pattern: str = ""
    reason: str = ""
    code: int = 0
    url: str = ""
    transport: str = ""
    retry_seconds: float = 0
    user: str = ""
    notice: str = ""
    count: int = 0
    closure: str = ""
    status: str = ""
    epoch: int = 0
    seq: int = 0
