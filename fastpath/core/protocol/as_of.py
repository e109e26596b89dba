"""As of when a message is true: a text, a number, or a map that a job fills in (protocol.md 5.2)."""

from __future__ import annotations

from typing import Any

from .errors import InvalidMessage
from .limits import CLOSURE_BYTES_MAX

NUMBER_MAX = (1 << 53) - 1
"""The numbers of the map are exact in JavaScript."""

NO_VERSION = -1
"""Number below every version."""

_TEXT, _NUMBER = f"a text of at most {CLOSURE_BYTES_MAX} characters", "a whole number from 0 on"
_KEYS = {"time": f"{_TEXT} or {_NUMBER}", "batch": _NUMBER, "job": _TEXT, "version": _NUMBER}
"""Keys that the map may hold, and what the value of each is."""


def check_as_of(as_of: Any) -> None:
    """Check that it is a text, a whole number, or a map of ``time``, ``batch``, ``job`` and ``version``; raise
    InvalidMessage for anything else.

    A number is one that JavaScript has exactly: a client of it would read another one, or none of the message.
    """
    if isinstance(as_of, str):
        if not _is_text(as_of):
            raise InvalidMessage("invalid", f"as_of has at most {CLOSURE_BYTES_MAX} characters, and none that is half")
    elif isinstance(as_of, dict):
        for key, value in as_of.items():
            if key not in _KEYS:
                raise InvalidMessage("invalid", f"as_of is a map of {', '.join(_KEYS)}")
            text = type(value) is str and _TEXT in _KEYS[key] and _is_text(value)
            number = type(value) is int and 0 <= value <= NUMBER_MAX and _NUMBER in _KEYS[key]
            if not (text or number):
                raise InvalidMessage("invalid", f"as_of: {key} is {_KEYS[key]}{_too_large(value)}")
    elif type(as_of) is not int:
        raise InvalidMessage("invalid", "as_of is a text, a whole number or a map")
    elif abs(as_of) > NUMBER_MAX:
        raise InvalidMessage("invalid", f"as_of: {as_of} is no number that every client reads{_too_large(as_of)}")


def readable_as_of(as_of: Any) -> Any:
    """Return what every client can read of what an earlier version has stored: a number that is too large as its
    digits, and nothing for what is not allowed otherwise."""
    if as_of is None:
        return None
    try:
        check_as_of(as_of)
    except InvalidMessage:
        return str(as_of) if type(as_of) is int else None
    return as_of


def version_of(as_of: Any) -> int:
    """Return the version that stands in ``as_of``, NO_VERSION without one."""
    version = as_of.get("version") if type(as_of) is dict else None
    return version if type(version) is int else NO_VERSION


def _is_text(text: str) -> bool:
    """Return whether the text is short enough, and has a UTF-8 form: half a character has none."""
    if len(text) > CLOSURE_BYTES_MAX:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_large(value: Any) -> str:
    """Return what to do about a number that is nearly one; empty for all else."""
    if type(value) is not int or abs(value) <= NUMBER_MAX:
        return ""
    return ", at most 2^53 - 1: give ms instead of ns, or its digits as a text"
