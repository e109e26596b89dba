"""Subject and pattern syntax (protocol.md 2)."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InvalidSubject
from .limits import SUBJECT_BYTES_MAX, SUBJECT_SEGMENTS_MAX

SYSTEM = "__sys__"
"""The first segment of the server's own subjects: readable by right, never published to by clients."""

MQTT = "__mqtt__"
"""The first segment of subjects that stand for topics of MQTT which are none (core/mqtt/topics.py)."""

USERS = "user"
"""The first segment of what is a user's own: ``/user/NAME/…``, which NAME may read (protocol.md 2.4)."""

USERNAME, USER_ID = "{username}", "{user_id}"
NAMES = (USERNAME, USER_ID)
"""Segments of a right that stand for who asks: the name, and the id (``uid``) of the token."""

RESERVED = {SYSTEM: True, MQTT: False, USERS: False}
"""First segments that are set apart (``is_reserved``): each is one line here, and says whether what is below it is the
server's own (``is_system``)."""

_SYSTEM_PREFIXES = tuple(f"/{segment}/" for segment, own in RESERVED.items() if own)

JOBS = f"/{SYSTEM}/jobs/"
"""Prefix of a job's name, where its progress is told: who holds the right to publish there may report it."""

PRESENCE = f"/{SYSTEM}/presence"
"""Subject where joins and leaves of everybody are told; in front of a subject, where those of the subject are."""

_UNUSABLE = frozenset("%/*+#{}\x00")

INBOX = f"/{SYSTEM}/inbox/"
"""Prefix of the inbox where a connection's replies go: nobody subscribes there, the server hands them to their
owner."""


def check_subject(text: str) -> None:
    """Accept a well-formed subject, else raise InvalidSubject with the reason (protocol.md 2.1)."""
    for segment in _segments(text):
        if segment in ("*", "**"):
            raise InvalidSubject("reserved segment", text)


def check_pattern(text: str, *, names: bool = True) -> None:
    """Accept a well-formed pattern of a right, else raise InvalidSubject (protocol.md 2.3).

    ``*`` stands for one segment, ``**`` as the last one for one or more, ``{username}`` and ``{user_id}`` for the
    user's name and id, which a subscription cannot have (``names`` is false).
    """
    if text == "/**":
        return  # everything: a subject has two segments or more, and ** stands for all of them
    segments = _segments(text)
    if "**" in segments[:-1]:
        raise InvalidSubject("** only as the last segment", text)
    for segment in segments:
        if "*" in segment and segment not in ("*", "**"):
            raise InvalidSubject("* must be a whole segment", text)
        if not names and segment in NAMES:
            raise InvalidSubject(f"{segment} is for rules: name the user", text)
        if names and ("{" in segment or "}" in segment) and segment not in NAMES:
            raise InvalidSubject("only {username} or {user_id} may stand in braces, as a whole segment", text)
    if names and segments[:2] == [USERS, USER_ID]:  # somebody's id may be another one's name
        raise InvalidSubject("behind /user/ stands a name, not {user_id}", text)


def check_wanted(text: str) -> None:
    """Accept what a subscription can be to, a subject or a pattern, else raise InvalidSubject."""
    if isinstance(text, str) and is_wildcard(text):
        check_pattern(text, names=False)
    else:
        check_subject(text)


def refused_offer(pattern: str) -> tuple[str, str]:
    """Return why nobody can offer to publish to, or to answer, what the pattern covers: a code of protocol.md 4.15 and
    a reason, both empty where somebody can."""
    try:
        check_pattern(pattern, names=False)
    except InvalidSubject as error:
        return "invalid", error.reason
    if is_system(pattern):
        return "denied", "subjects below /__sys__ belong to the server"
    return "", ""


def named_segment(name: str) -> str:
    """Return the segment that a name or an id of a user is in a right; empty where none can be it: then it counts as
    missing."""
    return "" if "/" in name or "\x00" in name or name in ("*", "**") else name


def covers(wanted: Sequence[str], given: Sequence[str], user: str = "") -> bool:
    """Return whether the pattern of a right of that user covers a subject, both as their segments (protocol.md 2.3)."""
    count = len(wanted)
    if wanted[-1] == "**":
        count -= 1
        if len(given) <= count:
            return False
    elif len(given) != count:
        return False
    return all(
        wanted[at] == "*" or (user if wanted[at] == USERNAME else wanted[at]) == given[at] for at in range(count)
    )


def specificity(pattern: str) -> tuple[int, ...]:
    """Return how specific the pattern is: of two that cover a subject the one of the greater value decides.

    Patterns are compared segment by segment from the left: a name, the user's too, is more specific than ``*``, and
    ``*`` more than ``**``.
    """
    return tuple({"*": 1, "**": 0}.get(segment, 2) for segment in pattern[1:].split("/"))


def is_wildcard(text: str) -> bool:
    """Return whether the text is meant as a pattern: a segment of it is a wildcard."""
    return "*" in text and not {"*", "**"}.isdisjoint(text.split("/"))


def is_reserved(segment: str) -> bool:
    """Return whether no wildcard stands for this first segment: what is below it is asked for by name."""
    return segment in RESERVED


def is_system(subject: str) -> bool:
    """Return whether the subject, or the pattern, is the server's own."""
    return subject.startswith(_SYSTEM_PREFIXES)


def is_reported(pattern: str) -> bool:
    """Return whether the subject, or the pattern of a right, is about the progress of jobs."""
    return pattern.startswith(JOBS)


def is_inbox(subject: str) -> bool:
    """Return whether the subject is where replies to somebody's requests go (protocol.md 3.12)."""
    return subject.startswith(INBOX)


def presence_of(subject: str) -> str:
    """Return the subject whose joins and leaves are told here; empty when it is none such."""
    return subject[len(PRESENCE) :] if subject.startswith(PRESENCE + "/") else ""


def user_segment(name: str) -> str:
    """Return the segment that stands for a user behind ``/user/``: the name, with ``%`` and two digits for what no
    segment, no pattern or no topic of MQTT can hold."""
    return name if _UNUSABLE.isdisjoint(name) else "".join(f"%{ord(c):02X}" if c in _UNUSABLE else c for c in name)


def owner_of(subject: str) -> str:
    """Return the segment of the user whose own subject this is, or on whose own subject it tells who is there; empty:
    of none.

    Own subjects have three segments or more.
    """
    segments = (presence_of(subject) or subject).split("/", 3)
    return segments[2] if len(segments) == 4 and segments[1] == USERS else ""


def may_depend_on_name(text: str) -> bool:
    """Return whether a subject, or a subscription's pattern, may cover what a user may read by its name alone."""
    return text.startswith((f"/{USERS}/", f"/{SYSTEM}/"))


def _segments(text: str) -> list[str]:
    """Return the segments of a subject or pattern, each known to be non-empty."""
    if not isinstance(text, str):
        raise InvalidSubject("not a text")
    if len(text) > SUBJECT_BYTES_MAX or not (text.isascii() or _encodable(text)):
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
