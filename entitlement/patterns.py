"""What is wrong with a pattern: where, why, what to write instead (protocol.md 2); and what the database checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, IntegerField, Q, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Concat, Length, Replace, StrIndex
from django.db.models.lookups import Exact, GreaterThan, LessThanOrEqual
from django.db.models.sql.compiler import SQLCompiler
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_noop

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX, SUBJECT_SEGMENTS_MAX
from fastpath.core.protocol.options import check_option_pattern
from fastpath.core.protocol.subject import (
    NAMES,
    USER_ID,
    USERNAME,
    USERS,
    check_pattern,
    is_system,
    named_segment,
    user_segment,
)

REPAIRS_MAX = SUBJECT_SEGMENTS_MAX
"""A pattern may have a fault in each segment; after so many repairs none is offered."""

_ADVICE = {
    gettext_noop("no leading slash"): gettext_noop("a pattern begins with a slash"),
    gettext_noop("empty segment"): gettext_noop("there is nothing between two slashes; * stands for any one segment"),
    gettext_noop("last segment empty"): gettext_noop(
        "it ends with a slash; /** at the end stands for everything below"
    ),
    gettext_noop("a single empty segment"): gettext_noop("a slash alone names nothing; /** is every subject"),
    gettext_noop("only one segment"): gettext_noop("a subject has two segments or more"),
    gettext_noop("reserved segment"): gettext_noop("it holds a character that no subject can hold"),
    gettext_noop("not utf-8"): gettext_noop("it holds half of a character"),
    gettext_noop("too long"): gettext_noop("a subject has at most %(most)s bytes of UTF-8"),
    gettext_noop("too many segments"): gettext_noop("a subject has at most %(most)s segments"),
    gettext_noop("** only as the last segment"): gettext_noop("* stands for one segment in the middle"),
    gettext_noop("* must be a whole segment"): gettext_noop("part of a segment cannot be matched"),
    gettext_noop("only {username} or {user_id} may stand in braces, as a whole segment"): gettext_noop(
        "{username} stands for the name of the user who asks, {user_id} for the id"
    ),
    gettext_noop("behind /user/ stands a name, not {user_id}"): gettext_noop("one user's id may be another one's name"),
}

_MOST = {"too long": SUBJECT_BYTES_MAX, "too many segments": SUBJECT_SEGMENTS_MAX}
"""The numbers in the advice."""

_OTHERS = (
    gettext_noop("not a text"),
    gettext_noop("not UTF-8"),
    gettext_noop("{username} is for rules: name the user"),
    gettext_noop("{user_id} is for rules: name the user"),
)
"""Reasons that a pattern of a rule never has, but a subject that somebody types (protocol.md 2)."""


def fault(pattern: str) -> str:
    """Return a sentence that says what is wrong with the pattern, at which character, and what would be right; or
    nothing."""
    reason = _reason(pattern)
    if not reason:
        return ""
    place, _ = _PLACES[reason](pattern)
    text = gettext("%(reason)s (character %(place)s): %(advice)s.") % {
        "reason": capfirst(gettext(reason)),
        "place": place + 1,
        "advice": gettext(_ADVICE[reason]) % {"most": _MOST.get(reason, 0)},
    }
    better = repaired(pattern)
    return gettext("%(text)s Write %(pattern)s instead.") % {"text": text, "pattern": better} if better else text


def option_fault(pattern: str) -> str:
    """Return the fault of a pattern of options: these are nobody's own, and the server's subjects have none."""
    if text := fault(pattern):
        return text
    if is_system(pattern):
        return gettext("Subjects under /__sys__/ are the server's: they have no options.")
    try:
        check_option_pattern(pattern)
    except InvalidSubject:
        words = gettext("%(name)s stands for whoever asks, and options are the same for all: * stands for any name.")
        return words % {"name": next(name for name in NAMES if name in pattern)}
    return ""


def reason_words(reason: str) -> str:
    """Return why a text is no subject or pattern, ``InvalidSubject.reason``, in the language of the page."""
    return gettext(reason)


def repaired(pattern: str) -> str:
    """Return the pattern that was probably meant; empty when there is no telling."""
    for _ in range(REPAIRS_MAX):
        reason = _reason(pattern)
        if not reason:
            return pattern
        _, pattern = _PLACES[reason](pattern)
        if not pattern:
            break
    return ""


def _reason(pattern: str) -> str:
    try:
        check_pattern(pattern)
    except InvalidSubject as error:
        return error.reason[0].lower() + error.reason[1:] if error.reason != "not UTF-8" else "not utf-8"
    return ""


def _segment(pattern: str, wrong: Callable[[str, bool], bool], right: Callable[[str], str]) -> tuple[int, str]:
    """Return where the first segment begins that is wrong (told if it is the last), and the pattern with it put
    right."""
    segments = pattern[1:].split("/")
    place = 1
    for index, segment in enumerate(segments):
        if wrong(segment, index == len(segments) - 1):
            return place, "/" + "/".join((*segments[:index], right(segment), *segments[index + 1 :]))
        place += len(segment) + 1
    return 0, ""


def _too_long(pattern: str) -> tuple[int, str]:
    """Return the first character beyond the bound."""
    return len(pattern.encode(errors="replace")[:SUBJECT_BYTES_MAX].decode(errors="ignore")), ""


def _too_many(pattern: str) -> tuple[int, str]:
    """Return the first segment beyond the bound; the last one that may be stands for it."""
    kept = pattern[1:].split("/")[:SUBJECT_SEGMENTS_MAX]
    return len("/" + "/".join(kept)) + 1, "/" + "/".join((*kept[:-1], "**"))


def _surrogate(pattern: str) -> tuple[int, str]:
    return next(place for place, character in enumerate(pattern) if "\ud800" <= character <= "\udfff"), ""


def _meant(segment: str) -> str:
    """Return the name that was probably meant by a segment in braces, of who asks; else any segment."""
    text = segment.lower()
    if "user" in text or "name" in text:
        return "{user_id}" if text.strip("{}").endswith(("id", "pk")) else USERNAME
    return "*"


_PLACES: dict[str, Callable[[str], tuple[int, str]]] = {
    "no leading slash": lambda pattern: (0, f"/{pattern}" if pattern else ""),
    "empty segment": lambda pattern: (pattern.index("//") + 1, pattern.replace("//", "/*/", 1)),
    "last segment empty": lambda pattern: (len(pattern) - 1, f"{pattern}**"),
    "a single empty segment": lambda pattern: (0, "/**"),
    "only one segment": lambda pattern: (len(pattern), f"{pattern}/**"),
    "reserved segment": lambda pattern: (pattern.index("\x00"), pattern.replace("\x00", "")),
    "not utf-8": _surrogate,
    "too long": _too_long,
    "too many segments": _too_many,
    "** only as the last segment": lambda pattern: _segment(
        pattern, lambda segment, last: segment == "**" and not last, lambda _: "*"
    ),
    "* must be a whole segment": lambda pattern: _segment(
        pattern, lambda segment, _: "*" in segment and segment not in ("*", "**"), lambda _: "*"
    ),
    "only {username} or {user_id} may stand in braces, as a whole segment": lambda pattern: _segment(
        pattern, lambda segment, _: not {"{", "}"}.isdisjoint(segment) and segment not in NAMES, _meant
    ),
    "behind /user/ stands a name, not {user_id}": lambda pattern: (
        len(f"/{USERS}/"),
        pattern.replace("{user_id}", USERNAME, 1),
    ),
}
"""Functions for each reason (protocol.md 2.1, 2.3): the character at fault, counted from 0, and the pattern put
right."""


def wider(pattern: str, user: str = "", most: int = 2000, *, uid: str = "", asked: bool = False) -> set[str] | None:
    """Return the texts of all patterns that cover every subject of this one (a subject is one, too), itself among them.

    Where it is a subject that somebody has ``asked`` about, or with a user, also those with ``NAMES``: of who has no
    such name every one, because it may deny. None when there are more than ``most``: a pattern of many segments.
    """
    segments = pattern[1:].split("/")
    prefixes = [""]
    found: set[str] = set()
    spelled = user_segment if segments[0] == USERS else named_segment
    named = [(text, spelled(name)) for text, name in zip(NAMES, (user, uid), strict=True) if name or asked]
    if segments[0] == USERS:  # no wildcard stands for it (protocol.md 2.4)
        prefixes = [f"/{segments.pop(0)}"]
    for segment in segments:
        found.update(f"{prefix}/**" for prefix in prefixes)
        if segment == "**":
            break
        forms = ["*"] if segment == "*" else [segment, "*"]
        forms += [text for text, name in named if segment == name or (asked and not name)]
        prefixes = [f"{prefix}/{form}" for prefix in prefixes for form in forms]
        if len(prefixes) + len(found) > most:
            return None
    else:
        found.update(prefixes)
    return found


def overlap(one: str, other: str) -> bool:
    """Return True if some subject is covered by both; ``NAMES`` may be any name."""
    first, second = one[1:].split("/"), other[1:].split("/")
    if USERS in (first[0], second[0]) and first[0] != second[0]:
        return False
    for mine, theirs in zip(first, second, strict=False):
        if "**" in (mine, theirs):
            return True
        if mine != theirs and not {mine, theirs} & {"*", *NAMES}:
            return False
    return len(first) == len(second)


class Bytes(Func):
    """The length of a text in bytes of UTF-8."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **more: Any) -> tuple[str, Any]:
        """SQLite has that function since 3.43."""
        return super().as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **more)


def readable(actions: list[str], effects: list[str], names: Sequence[str] = NAMES) -> Q:
    """Return the condition of a rule that is switched off, or has a pattern (protocol.md 2.3), and such actions and
    effects."""
    return Q(enabled=False) | (Q(action__in=actions) & Q(effect__in=effects) & _pattern(names))


def _pattern(names: Sequence[str]) -> Q:
    """Return what ``check_pattern`` accepts, but for NUL and half a character, which databases refuse or cannot look
    for."""
    pattern = F("pattern")
    closed = Concat(pattern, Value("/"))
    # Each segment with slashes of its own: /a/*/b as //a//*//b/. A wildcard is a whole segment, or none.
    segments: Combinable = Concat(Replace(pattern, Value("/"), Value("//")), Value("/"))
    for whole in ("/*/", "/**/", *(f"/{name}/" for name in names)):
        segments = Replace(segments, Value(whole), Value(""))
    count = Length(pattern) - Length(Replace(pattern, Value("/"), Value("")))
    found = (
        Q(Exact(StrIndex(pattern, Value("/")), 1))
        & _without(closed, "//")
        & _without(pattern, "/**/")
        & (Q(pattern="/**") | Q(GreaterThan(count, 1)))
        & Q(LessThanOrEqual(count, SUBJECT_SEGMENTS_MAX))
        & Q(LessThanOrEqual(Bytes(pattern), SUBJECT_BYTES_MAX))
    )
    for character in "*{}":
        found &= _without(segments, character)
    if USER_ID in names:
        found &= ~Q(Exact(StrIndex(closed, Value(f"/{USERS}/{USER_ID}/")), 1))
    return found


def _without(text: Combinable, part: str) -> Q:
    """Return the condition that the part is nowhere in the text.

    No LIKE, nor an argument of one character: Django cannot read a table of SQLite whose checks have such.
    """
    return Q(Exact(StrIndex(text, Value(part)), 0))
