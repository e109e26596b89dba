"""The trace that a message belongs to, as W3C Trace Context writes it: ``traceparent`` (protocol.md 5.5)."""

from __future__ import annotations

import re
from typing import Any

TRACEPARENT_CHARS = 55
"""Characters of version 00: ``00-TRACE-SPAN-FLAGS``, with 32, 16 and 2 hexadecimal digits."""

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)

_CHARS_MAX = 512
"""Characters that are looked at: what a later version appends is cut off."""

SAMPLED = 1
"""The flag that says so."""

_ODD = frozenset("13579bdf")
"""The last digit of flags that have it."""


def read_traceparent(value: Any) -> str | None:
    """Return the context that a publisher says, as one of version 00; None where there is none, or it is malformed.

    A malformed one is as none, and no error (W3C Trace Context, 3.2.2.3 and 4.3): the publication is good without. What
    a later version says behind the flags is left out.
    """
    if not isinstance(value, str) or not TRACEPARENT_CHARS <= len(value) <= _CHARS_MAX:
        return None
    found = _FORM.fullmatch(value)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not trace.strip("0") or not span.strip("0"):
        return None
    return f"00-{trace}-{span}-{flags}"


def make_traceparent(trace: str, span: str, flags: int = SAMPLED) -> str:
    """Return the context of a span that is sampled, whatever else its flags say."""
    return f"00-{trace}-{span}-{flags | SAMPLED:02x}"


def flags_of(traceparent: str) -> int:
    """Return all flags of a context."""
    return int(traceparent[53:], 16)


def trace_of(traceparent: str) -> str:
    """Return the id of the trace, 32 digits."""
    return traceparent[3:35]


def span_of(traceparent: str) -> str:
    """Return the id of the span that is the parent of what comes next, 16 digits."""
    return traceparent[36:52]


def is_sampled(traceparent: str) -> bool:
    """Return whether whoever wrote the context has recorded the span."""
    return traceparent[-1] in _ODD
