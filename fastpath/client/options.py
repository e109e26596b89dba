"""The options for how a client behaves when servers come and go: every option with its default and unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypedDict

Transport = Literal["websocket", "stream", "poll"]
TRANSPORTS: tuple[Transport, ...] = ("websocket", "stream", "poll")
"""What may carry a client's frames, from the fastest down."""


class OptionNames(TypedDict, total=False):
    """The options of ``connect()`` that ``Options`` explains."""

    timeout_seconds: float
    token_seconds: float
    ping_seconds: float
    silence_seconds: float
    quick_retries: int
    quick_seconds: float
    backoff_seconds: float
    backoff_seconds_max: float
    steady_seconds: float
    down_after: int
    reconnects_max: int
    publish_seconds: float
    publish_queue_messages: int
    publish_queue_bytes: int
    transports: Sequence[str]
    step_down_seconds: float
    step_up_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked when made: raises ValueError for what is negative, TypeError for a name that is none."""

    timeout_seconds: float = 10
    """For the first connection, for one attempt at a server, and for the answer to a command."""
    token_seconds: float = 15
    """For a callable ``token`` to answer; one that takes longer has failed."""
    ping_seconds: float = 5
    """How often the server is asked for a sign of life, and the latency measured."""
    silence_seconds: float = 12
    """A connection on which nothing at all arrives for so long is given up."""
    quick_retries: int = 3
    """So many rounds through the servers come soon after one another,"""
    quick_seconds: float = 5
    """the k-th after this × k, less a random part of this;"""
    backoff_seconds: float = 20
    """the others after a random half to whole of this, which doubles"""
    backoff_seconds_max: float = 360
    """up to this."""
    steady_seconds: float = 60
    """A connection that stood so long was a good one: counting begins anew."""
    down_after: int = 1
    """After so many failed rounds the status ``down`` is told."""
    reconnects_max: int = 15
    """More reconnections than this within 3 minutes are told as ``reconnect_rate_exceeded``."""
    publish_seconds: float = 60
    """How long a publication is tried."""
    publish_queue_messages: int = 1000
    """Publications that may wait for their answer,"""
    publish_queue_bytes: int = 1 << 20
    """and the bytes of their contents and fields."""
    transports: Sequence[str] = TRANSPORTS
    """Which are tried, from the fastest down, until one works; one alone is pinned."""
    step_down_seconds: float = 4
    """So long a transport has to open, and then for its first frame, while there is another to try after it."""
    step_up_seconds: float = 600
    """After so long those above the one that worked are tried again; each try in vain doubles that, to an hour."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name == "transports":
                self._check_transports(value)
            elif not isinstance(value, int | float) or value < 0:
                raise ValueError(f"{option.name} is a number of 0 or more, not {value!r}")

    @staticmethod
    def _check_transports(wished: Sequence[str]) -> None:
        if isinstance(wished, str) or not wished or any(name not in TRANSPORTS for name in wished):
            raise ValueError(f"transports are some of {', '.join(TRANSPORTS)}, not {wished!r}")
