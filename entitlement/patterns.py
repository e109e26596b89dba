"""What is wrong with a pattern: where, why, and what to write instead (protocol.md 2)."""

from __future__ import annotations

from collections.abc import Callable

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX, SUBJECT_SEGMENTS_MAX
from fastpath.core.protocol.subject import check_pattern

REPAIRS_MAX = SUBJECT_SEGMENTS_MAX
"""A pattern may have a fault in each segment; after so many repairs none is offered."""

_ADVICE = {
    "no leading slash": "a pattern begins with a slash",
    "empty segment": "there is nothing between two slashes; * stands for any one segment",
    "last segment empty": "it ends with a slash; /** at the end stands for everything below",
    "a single empty segment": "a slash alone names nothing; /** is every subject",
    "only one segment": "a subject has two segments or more",
    "reserved segment": "it holds a character that no subject can hold",
    "not utf-8": "it holds half of a character",
    "too long": f"a subject has at most {SUBJECT_BYTES_MAX} bytes of UTF-8",
    "too many segments": f"a subject has at most {SUBJECT_SEGMENTS_MAX} segments",
    "** only as the last segment": "* stands for one segment in the middle",
    "* must be a whole segment": "part of a segment cannot be matched",
    "only {username} may stand in braces, as a whole segment": "{username} stands for the name of the user who asks",
}


def fault(pattern: str) -> str:
    """A sentence that says what is wrong with the pattern, at which character, and what would be right; or nothing."""
    reason = _reason(pattern)
    if not reason:
        return ""
    place, _ = _PLACES[reason](pattern)
    text = f"{reason.capitalize()} (character {place + 1}): {_ADVICE[reason]}."
    better = repaired(pattern)
    return f"{text} Write {better} instead." if better else text


def repaired(pattern: str) -> str:
    """The pattern that was probably meant; empty when there is no telling."""
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
    """Where the first segment begins that is wrong (told if it is the last), and the pattern with it put right."""
    segments = pattern[1:].split("/")
    place = 1
    for index, segment in enumerate(segments):
        if wrong(segment, index == len(segments) - 1):
            return place, "/" + "/".join((*segments[:index], right(segment), *segments[index + 1 :]))
        place += len(segment) + 1
    return 0, ""


def _too_long(pattern: str) -> tuple[int, str]:
    """The first character beyond the bound."""
    return len(pattern.encode(errors="replace")[:SUBJECT_BYTES_MAX].decode(errors="ignore")), ""


def _too_many(pattern: str) -> tuple[int, str]:
    """The first segment beyond the bound; the last one that may be stands for it."""
    kept = pattern[1:].split("/")[:SUBJECT_SEGMENTS_MAX]
    return len("/" + "/".join(kept)) + 1, "/" + "/".join((*kept[:-1], "**"))


def _surrogate(pattern: str) -> tuple[int, str]:
    return next(place for place, character in enumerate(pattern) if "\ud800" <= character <= "\udfff"), ""


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
    "only {username} may stand in braces, as a whole segment": lambda pattern: _segment(
        pattern,
        lambda segment, _: not {"{", "}"}.isdisjoint(segment) and segment != "{username}",
        lambda segment: "{username}" if "user" in segment or "name" in segment else "*",
    ),
}
"""For each reason (protocol.md 2.1, 2.3): the character at fault, counted from 0, and the pattern without it."""


def wider(pattern: str, user: str = "", most: int = 2000) -> set[str] | None:
    """The texts of all patterns that cover every subject of this one (a subject is one, too), itself among them.

    With a user also those with ``{username}``. None when there are more than ``most``: a pattern of many segments.
    """
    prefixes = [""]
    found: set[str] = set()
    for segment in pattern[1:].split("/"):
        found.update(f"{prefix}/**" for prefix in prefixes)
        if segment == "**":
            break
        forms = ["*"] if segment == "*" else [segment, "*"]
        if user and segment == user:
            forms.append("{username}")
        prefixes = [f"{prefix}/{form}" for prefix in prefixes for form in forms]
        if len(prefixes) + len(found) > most:
            return None
    else:
        found.update(prefixes)
    return found


def overlap(one: str, other: str) -> bool:
    """Whether some subject is covered by both; ``{username}`` may be any name."""
    first, second = one[1:].split("/"), other[1:].split("/")
    for mine, theirs in zip(first, second, strict=False):
        if "**" in (mine, theirs):
            return True
        if mine != theirs and not {mine, theirs} & {"*", "{username}"}:
            return False
    return len(first) == len(second)


def rank(pattern: str) -> tuple[int, ...]:
    """How specific it is: of two that cover a subject the one of the greater rank decides.

    docs/develop/entitlement.md explains it.
    """
    return tuple({"*": 1, "**": 0}.get(segment, 2) for segment in pattern[1:].split("/"))
