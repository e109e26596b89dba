"""A message as it is sent: what can be known without the sidecar is checked, and later changes do not reach it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastpath.client.message import AsOf
from fastpath.core.protocol.errors import InvalidMessage, InvalidSubject
from fastpath.core.protocol.packets import read_publication
from fastpath.core.protocol.subject import check_subject, is_system
from realtime.publishing.contents import Content, check_text, encoded, plain
from realtime.publishing.outcomes import MessageTooLarge, PublishRefused, refused

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
"""Bytes of a row on the wire besides its subject, content, fields and meta: lengths, names and numbers."""

_FIELD_OVERHEAD_BYTES = 10
"""The lengths of a field's name and value."""


class Publication(NamedTuple):
    """A message for publish_many(), with what publish() takes."""

    subject: str
    content: Content
    fields: Mapping[str, Content] | None = None
    retained: bool = True
    qos: str = "guaranteed"
    as_of: AsOf | None = None
    reply_to: str | None = None
    closure: str | None = None
    replace: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """``wire`` is ``[subject, content, fields, meta]`` (protocol.md 6.2); ``size`` is in bytes, counted as there."""

    subject: str
    wire: list[Any]
    size: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame that the row takes at most."""
        around = len(self.wire[2]) * _FIELD_OVERHEAD_BYTES + len(repr(self.wire[3]).encode(errors="replace"))
        return self.size + len(self.subject.encode()) + around + _OVERHEAD_BYTES

    def check_size(self, bytes_max: int) -> None:
        """MessageTooLarge for a message that is larger than the sidecar takes."""
        if self.size > bytes_max:
            reason = f"content and fields have {self.size} bytes, the sidecar takes {bytes_max}"
            raise MessageTooLarge("too_large", f"{reason} (FASTPATH_MESSAGE_BYTES_MAX)", self.subject)


def checked(publication: Publication) -> Row:
    """Return the row of a message; raise TypeError or PublishRefused with what to do."""
    subject = _subject(publication.subject)
    content = encoded(publication.content, "content", subject)
    own = _fields(publication.fields, subject)
    wire = [subject, content, own, _meta(publication, subject)]
    try:
        size = read_publication(wire).weigh()
    except InvalidMessage as error:
        raise refused(error.code, error.reason, subject) from None
    return Row(subject, wire, size)


def checked_all(messages: Iterable[Publication | tuple[Any, ...] | Mapping[str, Any]]) -> list[Row]:
    """Return the rows of all, or raise the error of the first that cannot be sent, with a note that says which one it
    is."""
    rows = []
    for index, message in enumerate(messages):
        try:
            if isinstance(message, Mapping):
                rows.append(checked(Publication(**message)))
            elif isinstance(message, tuple | list):
                rows.append(checked(Publication(*message)))
            else:
                raise TypeError(f"a message is a Publication, a tuple or a dict, not {type(message).__name__}")
        except (TypeError, PublishRefused) as error:
            error.add_note(f"(message {index} of publish_many(), counted from 0; none was published)")
            raise
    return rows


def _fields(given: Any, subject: str) -> dict[str, str | bytes]:
    if not isinstance(given, Mapping | None):
        raise TypeError(f"fields is a mapping of names to values, not {type(given).__name__}")
    own: dict[str, str | bytes] = {}
    for key, value in given.items() if given else ():
        name = plain(key)
        if not isinstance(name, str):
            raise TypeError(f"the field {key!r} has a {type(key).__name__} as its name: names are texts")
        what = f"the field {name!r}"
        check_text(name, f"the name of {what}", subject)
        own[name] = encoded(value, what, subject)
    return own


def _meta(publication: Publication, subject: str) -> dict[str, Any]:
    """Return what differs from the default; whether it can be is for the protocol to say."""
    meta: dict[str, Any] = {}
    if not publication.retained:
        meta["retained"] = False
    if publication.replace:
        meta["replace"] = True
    if publication.removed:
        meta["removed"] = True
    if publication.qos != "guaranteed":
        meta["qos"] = publication.qos
    for name in ("as_of", "reply_to", "closure"):
        value = plain(getattr(publication, name))
        if value is None or value == "":
            continue
        if isinstance(value, str):
            check_text(value, name, subject)
        meta[name] = dict(value) if isinstance(value, Mapping) else value
    if "reply_to" in meta:
        try:
            check_subject(meta["reply_to"])
        except InvalidSubject as error:
            reason = f"reply_to {meta['reply_to']!r} is no subject: {error.reason}"
            raise PublishRefused("invalid", reason, subject) from None
    return meta


def _subject(given: Any) -> str:
    subject = plain(given)
    try:
        if isinstance(subject, str):
            check_text(subject, "the subject", repr(subject))
        check_subject(subject)
    except InvalidSubject as error:
        advice = _ADVICE.get(error.reason)
        raise PublishRefused("invalid", f"{error.reason}{f' ({advice})' if advice else ''}", repr(subject)) from None
    if is_system(subject):
        raise PublishRefused("denied", "subjects under /__sys__/ are the server's", subject)
    return str(subject)
