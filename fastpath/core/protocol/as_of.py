"""As of when a message is true: a text, a number, or a map that a job fills in (protocol.md 5.2)."""

from __future__ import annotations

from typing import Any

from .errors import InvalidMessage
from .limits import CLOSURE_BYTES_MAX

NUMBER_MAX = (1 << 53) - 1
"""The numbers of the map are exact in JavaScript."""

NO_VERSION = -1
"""Below every version."""

_TEXT, _NUMBER = f"a text of at most {CLOSURE_BYTES_MAX} characters", "a whole number from 0 on"
_KEYS = {"time": f"{_TEXT} or {_NUMBER}", "batch": _NUMBER, "job": _TEXT, "version": _NUMBER}
"""What the map may hold, and what each is."""


def check_as_of(as_of: Any) -> None:
    """Raises InvalidMessage for anything but a text, a whole number, or a map of ``time``, ``batch``, ``job`` and
    ``version``."""
    if isinstance(as_of, str):
        if len(as_of) > CLOSURE_BYTES_MAX:
            raise InvalidMessage("invalid", f"as_of has at most {CLOSURE_BYTES_MAX} characters")
    elif isinstance(as_of, dict):
        for key, value in as_of.items():
            if key not in _KEYS:
                raise InvalidMessage("invalid", f"as_of is a map of {', '.join(_KEYS)}")
            text = type(value) is str and len(value) <= CLOSURE_BYTES_MAX and _TEXT in _KEYS[key]
            number = type(value) is int and 0 <= value <= NUMBER_MAX and _NUMBER in _KEYS[key]
            if not (text or number):
                raise InvalidMessage("invalid", f"as_of: {key} is {_KEYS[key]}")
    elif type(as_of) is not int:
        raise InvalidMessage("invalid", "as_of is a text, a whole number or a map")


def version_of(as_of: Any) -> int:
    """The version that stands in it, NO_VERSION without one."""
    version = as_of.get("version") if type(as_of) is dict else None
    return version if type(version) is int else NO_VERSION
