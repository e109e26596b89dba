"""Subject and pattern syntax (protocol.md 2)."""

from __future__ import annotations

from .errors import InvalidSubject
from .limits import SUBJECT_BYTES_MAX, SUBJECT_SEGMENTS_MAX

SYSTEM_PREFIX = "/__sys__/"
"""Subjects below it belong to the server: readable by right, never published to by clients."""

JOBS = "/__sys__/jobs/"
"""In front of a job's name, where its progress is told: who holds the right to publish there may report it."""

PRESENCE = "/__sys__/presence"
"""Where joins and leaves of everybody are told; in front of a subject, where those of the subject are."""


def check_subject(text: str) -> None:
    """Accept a well-formed subject, else raise InvalidSubject with the reason (protocol.md 2.1)."""
    for segment in _segments(text):
        if segment in ("*", "**"):
            raise InvalidSubject("reserved segment", text)


def check_pattern(text: str, *, names: bool = True) -> None:
    """Accept a well-formed pattern of a right, else raise InvalidSubject (protocol.md 2.3).

    ``*`` stands for one segment, ``**`` as the last one for one or more, ``{username}`` for the user's name, which
    a subscription cannot have (``names`` is false).
    """
    if text == "/**":
        return  # everything: a subject has two segments or more, and ** stands for all of them
    segments = _segments(text)
    if "**" in segments[:-1]:
        raise InvalidSubject("** only as the last segment", text)
    for segment in segments:
        if "*" in segment and segment not in ("*", "**"):
            raise InvalidSubject("* must be a whole segment", text)
        if not names and segment == "{username}":
            raise InvalidSubject("{username} is for rules: name the user", text)
        if names and ("{" in segment or "}" in segment) and segment != "{username}":
            raise InvalidSubject("only {username} may stand in braces, as a whole segment", text)


def is_wildcard(text: str) -> bool:
    """Return whether the text is meant as a pattern: a segment of it is a wildcard."""
    return "*" in text and not {"*", "**"}.isdisjoint(text.split("/"))


def is_system(subject: str) -> bool:
    """Return whether the subject's first segment is the server's own ``__sys__``."""
    return subject.startswith(SYSTEM_PREFIX)


def is_reported(pattern: str) -> bool:
    """Return whether the subject, or the pattern of a right, is about the progress of jobs."""
    return pattern.startswith(JOBS)


def presence_of(subject: str) -> str:
    """The subject whose joins and leaves are told here; empty when it is none such."""
    return subject[len(PRESENCE) :] if subject.startswith(PRESENCE + "/") else ""


def _segments(text: str) -> list[str]:
    """The segments of a subject or pattern, each known to be non-empty."""
    if not isinstance(text, str):
        raise InvalidSubject("not a text")
    if len(text) > SUBJECT_BYTES_MAX or not _encodable(text):
        raise InvalidSubject("too long", text[:64] + "…")
    if not text.startswith("/"):
        raise InvalidSubject("no leading slash", text)
    segments = text[1:].split("/")
    if segments == [""]:
        raise InvalidSubject("a single empty segment", text)
    if "" in segments[:-1]:
        raise InvalidSubject("empty segment", text)
    if segments[-1] == "":
        raise InvalidSubject("last segment empty", text)
    if len(segments) < 2:
        raise InvalidSubject("only one segment", text)
    if len(segments) > SUBJECT_SEGMENTS_MAX:
        raise InvalidSubject("too many segments", text[:64] + "…")
    if "\x00" in text:
        raise InvalidSubject("reserved segment", text)
    return segments


def _encodable(text: str) -> bool:
    """Return whether the text has a UTF-8 form within the bound (a lone surrogate has none)."""
    try:
        return len(text.encode()) <= SUBJECT_BYTES_MAX
    except UnicodeEncodeError:
        raise InvalidSubject("not UTF-8") from None
