"""publish(): send a message from any Django code, once its transaction has committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.db import transaction

from fastpath.client.errors import ClientError, ControlRefused
from fastpath.core.errors import InvalidSubject
from fastpath.core.subject import check_subject, is_system
from realtime.control import control

Value = str | bytes

_ADVICE = {
    "no leading slash": "a subject begins with a slash, as in /stocks/us/IBM",
    "empty segment": "there is nothing between two slashes",
    "last segment empty": "leave out the slash at the end",
    "a single empty segment": "a slash alone names nothing",
    "only one segment": "a subject has two segments or more, as in /stocks/IBM",
    "reserved segment": "* and ** are for rights; a message has one subject",
    "too long": "a subject has at most 512 bytes of UTF-8",
    "too many segments": "a subject has at most 32 segments",
}


_TRANSIENT = frozenset({"failed", "unavailable", "not_ready", "stale", "out_of_order"})
"""The results after which the same message may be stored when it is sent again."""


class Position(NamedTuple):
    """Where a message stands in its subject; ``seq`` is 0 for one of standard quality."""

    epoch: int
    seq: int


class PublishRefused(ClientError, ValueError):
    """The message was not published and would not be if sent again; ``code`` is one of protocol.md 4.4."""

    def __init__(self, code: str, reason: str, subject: str) -> None:
        super().__init__(code, reason, subject)
        self.code = code
        self.reason = reason
        self.subject = subject

    def __str__(self) -> str:
        return f"the message to {self.subject} was not published, {self.code}: {self.reason}"


class PublishFailed(ClientError):
    """No node could store the message; sending it again may work.

    ``code`` ``failed``: it was not stored. ``unavailable``: the cluster could not store it safely in time; it may come
    all the same.
    """

    def __init__(self, code: str, reason: str, subject: str) -> None:
        super().__init__(code, reason, subject)
        self.code = code
        self.reason = reason
        self.subject = subject

    def __str__(self) -> str:
        fate = "may or may not come" if self.code == "unavailable" else "was not published"
        return f"the message to {self.subject} {fate}, {self.code}: {self.reason}"


def publish(
    subject: str,
    content: Value,
    fields: Mapping[str, Value] | None = None,
    *,
    retained: bool = True,
    qos: str = "guaranteed",
) -> Position | None:
    """Publish after the current transaction's commit, or at once outside of one.

    Returns the position when it was sent at once, else None; a transaction that is rolled back publishes nothing.
    Raises TypeError or PublishRefused at once for what can never be sent, PublishFailed when no node could store it,
    and SidecarUnavailable when no node answers: inside a transaction now, so that it can still be rolled back, and
    again from the commit if it went away in between (then the data is saved). Of several nodes the next one is asked
    when one does not answer or cannot store the message; it is stored once all the same. ``retained`` False leaves the
    snapshot as it is; ``qos`` is ``"guaranteed"`` or ``"standard"`` (protocol.md 3.4).
    """
    send = _prepared(subject, content, fields, retained, qos)
    if not transaction.get_connection().in_atomic_block:
        return send()
    control().hello()
    transaction.on_commit(send)
    return None


def _prepared(
    subject: str, content: Value, fields: Mapping[str, Value] | None, retained: bool, qos: str
) -> Callable[[], Position]:
    """The sending of a message whose form is known to be good and that later changes do not reach."""
    _check(subject, content, fields or {}, qos)
    meta: dict[str, Any] = {}
    if not retained:
        meta["retained"] = False
    if qos != "guaranteed":
        meta["qos"] = qos
    row = [subject, content, dict(fields or {}), meta]

    def send() -> Position:
        try:
            answer = control().publish([row])
        except ControlRefused as error:
            raise PublishRefused(error.code, error.reason, subject) from None
        match answer["results"]:
            case [int(seq)]:
                return Position(answer["epoch"], seq)
            case [[int(epoch), int(seq)]]:
                return Position(epoch, seq)
            case [[str(code), str(reason)]]:
                raise (PublishFailed if code in _TRANSIENT else PublishRefused)(code, reason, subject)
            case other:
                raise PublishFailed("failed", f"the node answers {other!r}", subject)

    return send


def _check(subject: str, content: Value, fields: Mapping[str, Value], qos: str) -> None:
    """What can be known without the sidecar; each error says what to do."""
    try:
        check_subject(subject)
    except InvalidSubject as error:
        advice = _ADVICE.get(error.reason)
        raise PublishRefused("invalid", f"{error.reason}{f' ({advice})' if advice else ''}", repr(subject)) from None
    if is_system(subject):
        raise PublishRefused("denied", "subjects under /__sys__/ are the server's", subject)
    if not isinstance(content, str | bytes):
        raise TypeError(f"content is a text or bytes, not {type(content).__name__}: use str(…) or json.dumps(…)")
    for name, value in fields.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise TypeError(f"the field {name!r} holds {type(value).__name__}: names are texts, values texts or bytes")
    if qos not in ("guaranteed", "standard"):
        raise PublishRefused("invalid", f'qos is "guaranteed" or "standard", not {qos!r}', subject)
