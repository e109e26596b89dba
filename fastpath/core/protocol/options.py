"""Options of subjects by pattern as values: a row as Django sends it, what is in force for a subject (features.md C7).

The wire form is that of protocol.md 8.3.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from .errors import InvalidSubject
from .limits import CONFLATION_GRID_MS, CONFLATION_MS_MAX
from .messages import GUARANTEED
from .subject import check_pattern, is_system

CACHE_MESSAGES_MAX = 1_000_000
"""The most messages of one subject that an option may have cached; the bound on the bytes of all holds besides."""

CACHE_SECONDS_MAX = 30 * 24 * 3600
"""The longest time for which an option may have messages cached: 30 days."""

PUBLISH_RATE_MAX = 1_000_000
"""The highest rate of publications a second that an option may set: more than one connection can send."""

OPTIONS = ("cache_messages", "cache_ms", "conflation_ms", "retained", "delivery", "presence", "publish_rate")
"""The names of the options, in the order in which they are shown."""

_Key = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Count = Annotated[int, Meta(ge=0, le=CACHE_MESSAGES_MAX)]
_Age = Annotated[int, Meta(ge=0, le=CACHE_SECONDS_MAX * 1000)]
_Interval = Annotated[int, Meta(ge=0, le=CONFLATION_MS_MAX, multiple_of=CONFLATION_GRID_MS)]
_Rate = Annotated[int, Meta(ge=0, le=PUBLISH_RATE_MAX)]
_Delivery = Literal["guaranteed", "standard"]


class OptionRow(Struct, frozen=True):
    """The options of the subjects of one pattern; None: another pattern says it, or the node's settings do."""

    id: _Key
    pattern: str
    cache_messages: _Count | None = None
    cache_ms: _Age | None = None
    conflation_ms: _Interval | None = None
    retained: bool | None = None
    delivery: _Delivery | None = None
    presence: bool | None = None
    publish_rate: _Rate | None = None


class TopicOptions(NamedTuple):
    """The options in force for a subject that a pattern covers."""

    cache_messages: int
    """Number of the subject's newest messages that are cached."""
    cache_ms: int
    """Milliseconds for which each of them is cached."""
    conflation_ms: int = 0
    """The least interval at which its subscribers are sent what came; 0: each message."""
    retained: bool = True
    """False: no snapshot is kept."""
    delivery: str = GUARANTEED
    """STANDARD: what is published is of standard quality, whatever its publisher asks for."""
    presence: bool | None = None
    """True if it is known who is on the subject; None: the node's setting says so."""
    publish_rate: int = 0
    """Publications a second that may come from each connection to all subjects of ``rated_by`` together; 0: any."""
    rated_by: str = ""
    """The pattern that says ``publish_rate``."""


def check_option_pattern(pattern: str) -> None:
    """Accept a pattern that options may have, else raise InvalidSubject: one without a user's name, of subjects that
    are not the server's own."""
    check_pattern(pattern, names=False)
    if is_system(pattern):
        raise InvalidSubject("subjects below /__sys__ belong to the server", pattern)
