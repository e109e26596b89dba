"""What a program may pass: a call with anything else fails by itself, before it becomes part of what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastpath.core.protocol.messages import GUARANTEED, STANDARD

from .errors import BadToken, Invalid, Limited

NUMBER_MAX = (1 << 53) - 1
"""The largest whole number of the protocol."""

PATTERNS_MAX = 1000
"""Patterns in one command at most (protocol.md 3.10)."""

TOKEN_CHARS_MAX = 64 << 10
CLOSURE_CHARS_MAX = 256

SLOW = ("close", "conflate")


def check_text(what: str, text: Any) -> str:
    """Return the text; raise TypeError if it is no text, and Invalid for half a character: no form of the protocol has
    it."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("invalid", f"half a character (a surrogate without its other half) in {what}") from None
    return text


def check_values(content: object, fields: Mapping[str, object]) -> None:
    """Raise TypeError for content or field values other than str and bytes, and as ``check_text`` does for text."""
    for what, value in (("the content", content), *((f"the field {name!a}", value) for name, value in fields.items())):
        if isinstance(value, str):
            check_text(what, value)
        elif not isinstance(value, bytes):
            raise TypeError(f"content and field values are str or bytes, not {type(value).__name__}")
    for name in fields:
        check_text("the name of a field", name)


def check_count(what: str, number: Any, least: int = 0) -> int:
    """Return the number; raise ValueError unless it is a whole number of the protocol that is ``least`` or greater."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= NUMBER_MAX:
        raise ValueError(f"{what} is a whole number from {least} to {NUMBER_MAX}, not {number!r}")
    return number


def check_positions(names: Iterable[str], since: Any) -> dict[str, tuple[int, int]]:
    """Return the position in ``since`` of each name; raise TypeError and ValueError for what is no position."""
    if since is None:
        return {}
    positions = dict(since) if isinstance(since, Mapping) else dict.fromkeys(names, since)
    for name, position in positions.items():
        check_text("a name in since", name)
        if isinstance(position, str | bytes) or not isinstance(position, Sequence) or len(position) != 2:
            raise TypeError(f"since: a position is (epoch, seq), not {position!r}")
        for number in position:
            check_count("a part of since", number)
    return positions


def check_subscription(history: Any, conflation: Any, slow: Any) -> None:
    """Raise ValueError for options that no server takes."""
    check_count("history", history)
    check_count("conflation", conflation)
    if slow not in SLOW:
        raise ValueError(f"slow is one of {', '.join(SLOW)}, not {slow!r}")


def check_patterns(names: Sequence[Any]) -> None:
    """Raise TypeError and Invalid for a pattern that is no text, and Limited for more patterns than one command has."""
    for name in names:
        check_text("a pattern", name)
    if len(names) > PATTERNS_MAX:
        raise Limited("limit", f"at most {PATTERNS_MAX} patterns")


def check_token(token: Any) -> str:
    """Return the token; raise TypeError if it is no text, and BadToken if no server takes it."""
    try:
        if len(check_text("a token", token)) <= TOKEN_CHARS_MAX:
            return str(token)
    except Invalid as error:
        raise BadToken("bad_token", error.reason) from None
    raise BadToken("bad_token", f"it has over {TOKEN_CHARS_MAX} characters")


def check_quality(qos: Any) -> None:
    """Raise Invalid unless ``qos`` is one of the two that there are."""
    if qos not in (GUARANTEED, STANDARD):
        raise Invalid("invalid", 'qos is "guaranteed" or "standard"')


def check_closure(closure: str | None) -> None:
    """Raise TypeError or Invalid for a closure that is no text, and Limited for one that is too long."""
    if closure is not None and len(check_text("closure", closure)) > CLOSURE_CHARS_MAX:
        raise Limited("limit", f"a closure has at most {CLOSURE_CHARS_MAX} characters")
