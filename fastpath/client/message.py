"""What a program gets from a client: messages, positions and changes of status."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fastpath.core.messages import GUARANTEED, STANDARD, Data, Fields, Value


class Position(NamedTuple):
    """How far a subject was read or written; subscribe with ``since`` to go on from here."""

    epoch: int
    seq: int


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a subject.

    ``kind`` is ``update``, ``snapshot``, ``recovered`` or ``historical``; ``time`` is in ms since 1970;
    ``seq`` is 0 for standard quality; absent texts are empty.
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
    as_of: Any = None

    @property
    def qos(self) -> str:
        """``guaranteed`` or ``standard``."""
        return GUARANTEED if self.seq else STANDARD


def message_of(data: Data, subject: str, epoch: int, base: int) -> Message:
    """The message that a frame stands for (protocol.md 5)."""
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
    )


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the connection, or of one subject's subscription.

    The connection: ``connected`` (``url``), ``disconnected`` (``code``, ``reason``; it is tried again after
    ``retry_seconds``), ``failed`` (it is not), ``expiring``, ``renewed``, ``notice``, ``error``. A subject:
    ``subscribed``, ``recovered`` (exactly what was missed follows), ``resynchronised`` (the snapshot follows
    if there is one, or the subject goes on in a new epoch), ``gap`` (messages are missing and are asked for again),
    ``denied``, ``not_ready``, ``revoked`` (it waits for the right), ``lagging`` (this client does not keep up, and
    a subscription with ``slow="conflate"`` is conflated), ``caught_up`` (no more).
    """

    name: str
    subject: str = ""
    reason: str = ""
    code: int = 0
    url: str = ""
    retry_seconds: float = 0
