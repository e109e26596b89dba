"""A message as it is sent: what can be known without the sidecar is checked, and later changes do not reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise

from fastpath.core.protocol.errors import InvalidMessage, InvalidSubject
from fastpath.core.protocol.packets import read_publication
from fastpath.core.protocol.subject import check_subject, is_system
from realtime.publishing.outcomes import PublishRefused

Value = str | bytes | Promise
"""Texts, also lazy ones and those of a subclass such as SafeString, and bytes."""

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

_OVERHEAD_BYTES = 96
"""What a row takes on the wire besides its subject, content and fields: lengths, names and numbers."""

_FIELD_OVERHEAD_BYTES = 10
"""The lengths of a field's name and value."""


@dataclass(frozen=True, slots=True)
class Row:
    """``wire`` is ``[subject, content, fields, meta]`` (protocol.md 6.2); ``size`` is in bytes, counted as there."""

    subject: str
    wire: list[Any]
    size: int

    @property
    def frame_bytes(self) -> int:
        """What it takes of a frame, at most."""
        return self.size + len(self.subject.encode()) + len(self.wire[2]) * _FIELD_OVERHEAD_BYTES + _OVERHEAD_BYTES

    def check_size(self, bytes_max: int) -> None:
        """PublishRefused for a message that is larger than the sidecar takes."""
        if self.size > bytes_max:
            reason = f"content and fields have {self.size} bytes, the sidecar takes {bytes_max}"
            raise PublishRefused("too_large", f"{reason} (FASTPATH_MESSAGE_BYTES_MAX)", self.subject)


def checked(subject: str, content: Value, fields: Mapping[str, Value] | None, retained: bool, qos: str) -> Row:
    """The row of a message; raises TypeError or PublishRefused with what to do."""
    subject = _subject(subject)
    content = _value(content, "content", "content is a text or bytes, not {}: use str(…) or json.dumps(…)", subject)
    if not isinstance(fields, Mapping | None):
        raise TypeError(f"fields is a mapping of names to values, not {type(fields).__name__}")
    own: dict[str, str | bytes] = {}
    for key, value in fields.items() if fields else ():
        name = _plain(key)
        if not isinstance(name, str):
            raise TypeError(f"the field {key!r} has a {type(key).__name__} as its name: names are texts")
        what = f"the field {name!r}"
        _check_text(name, f"the name of {what}", subject)
        own[name] = _value(value, what, what + " holds {}: values are texts or bytes", subject)
    meta: dict[str, Any] = {}
    if not retained:
        meta["retained"] = False
    if qos != "guaranteed":
        meta["qos"] = qos
    wire = [subject, content, own, meta]
    try:
        size = read_publication(wire).weigh()
    except InvalidMessage as error:
        raise PublishRefused(error.code, error.reason, subject) from None
    return Row(subject, wire, size)


def _subject(given: Any) -> str:
    subject = _plain(given)
    try:
        if isinstance(subject, str):
            _check_text(subject, "the subject", repr(subject))
        check_subject(subject)
    except InvalidSubject as error:
        advice = _ADVICE.get(error.reason)
        raise PublishRefused("invalid", f"{error.reason}{f' ({advice})' if advice else ''}", repr(subject)) from None
    if is_system(subject):
        raise PublishRefused("denied", "subjects under /__sys__/ are the server's", subject)
    return str(subject)


def _value(given: Any, what: str, type_error: str, subject: str) -> str | bytes:
    value = _plain(given)
    if isinstance(value, str):
        _check_text(value, what, subject)
    elif not isinstance(value, bytes):
        raise TypeError(type_error.format(type(given).__name__))
    return value


def _plain(value: Any) -> Any:
    """A text or bytes of exactly that type, where the value is one: only these can be encoded."""
    if isinstance(value, Promise):
        value = str(value)  # in the language that is active now
    if isinstance(value, str):  # which a SimpleLazyObject only says of itself
        return str.__str__(value) if issubclass(type(value), str) else str(value)
    return bytes(value) if isinstance(value, bytes) else value


def _check_text(text: str, what: str, subject: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        reason = f"{what} has half of a character at {error.start} (a lone surrogate), which UTF-8 cannot say"
        raise PublishRefused("invalid", reason, subject) from None
