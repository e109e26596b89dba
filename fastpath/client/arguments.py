"""What a program may pass: a call with anything else fails by itself, before it becomes part of what is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastpath.core.protocol.messages import GUARANTEED, STANDARD

from .errors import BadToken, Invalid, Limited

NUMBER_MAX = (1 << 53) - 1
"""The largest whole number of the protocol."""

PATTERNS_MAX = 1000
"""In one command (protocol.md 3.10)."""

TOKEN_CHARS_MAX = 64 << 10
CLOSURE_CHARS_MAX = 256

SLOW = ("close", "conflate")


def check_text(what: str, text: Any) -> str:
    """Raises TypeError for what is no text, and Invalid for half a character: no form of the protocol has it."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("invalid", f"half a character (a surrogate without its other half) in {what}") from None
    return text


def check_values(content: object, fields: Mapping[str, object]) -> None:
    """Raises TypeError for content or field values other than text and bytes, and as ``check_text``."""
    for what, value in (("the content", content), *((f"the field {name!a}", value) for name, value in fields.items())):
        if isinstance(value, str):
            check_text(what, value)
        elif not isinstance(value, bytes):
            raise TypeError(f"content and field values are str or bytes, not {type(value).__name__}")
    for name in fields:
        check_text("the name of a field", name)


def check_count(what: str, number: Any, least: int = 0) -> int:
    """Raises ValueError for what is no whole number of the protocol's from ``least`` on."""
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= NUMBER_MAX:
        raise ValueError(f"{what} is a whole number from {least} to {NUMBER_MAX}, not {number!r}")
    return number


def check_positions(names: Iterable[str], since: Any) -> dict[str, tuple[int, int]]:
    """The positions that ``since`` says, of each name or of all; raises TypeError and ValueError."""
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
    """Raises ValueError for other options than a server takes."""
    check_count("history", history)
    check_count("conflation", conflation)
    if slow not in SLOW:
        raise ValueError(f"slow is one of {', '.join(SLOW)}, not {slow!r}")


def check_patterns(names: Sequence[Any]) -> None:
    """Raises TypeError, Invalid, and Limited for more than one command has."""
    for name in names:
        check_text("a pattern", name)
    if len(names) > PATTERNS_MAX:
        raise Limited("limit", f"at most {PATTERNS_MAX} patterns")


def check_token(token: Any) -> str:
    """Raises TypeError for what is no text, and BadToken for one that no server takes."""
    try:
        if len(check_text("a token", token)) <= TOKEN_CHARS_MAX:
            return str(token)
    except Invalid as error:
        raise BadToken("bad_token", error.reason) from None
    raise BadToken("bad_token", f"it has over {TOKEN_CHARS_MAX} characters")


def check_quality(qos: Any) -> None:
    """Raises Invalid for another than the two that there are."""
    if qos not in (GUARANTEED, STANDARD):
        raise Invalid("invalid", 'qos is "guaranteed" or "standard"')


def check_closure(closure: str | None) -> None:
    """Raises TypeError, Invalid, and Limited for one that is too long."""
    if closure is not None and len(check_text("closure", closure)) > CLOSURE_CHARS_MAX:
        raise Limited("limit", f"a closure has at most {CLOSURE_CHARS_MAX} characters")
