"""The options for how a client behaves when servers come and go: every option with its default and unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypedDict

Transport = Literal["websocket", "stream", "poll"]
TRANSPORTS: tuple[Transport, ...] = ("websocket", "stream", "poll")
"""Names of what may carry a client's frames, from the fastest down."""


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
    """The options of a client, checked when made: raises ValueError for a negative number, TypeError for an unknown
    name."""

    timeout_seconds: float = 10
    """Seconds for the first connection, for one attempt at a server, and for the answer to a command."""
    token_seconds: float = 15
    """Seconds for a callable ``token`` to answer; one that takes longer has failed."""
    ping_seconds: float = 5
    """Seconds from one ping to the next, by which the client learns that the server lives, and the latency."""
    silence_seconds: float = 12
    """Seconds without anything from the server after which a connection is given up."""
    quick_retries: int = 3
    """Number of rounds through the servers that come soon after one another."""
    quick_seconds: float = 5
    """Seconds that are multiplied by k for the pause before the k-th quick round, less a random part of them."""
    backoff_seconds: float = 20
    """Seconds before the rounds after the quick ones: a random half to whole of this, which doubles with each round."""
    backoff_seconds_max: float = 360
    """Seconds up to which ``backoff_seconds`` doubles."""
    steady_seconds: float = 60
    """Seconds that a good connection stands; after one, failures are counted anew."""
    down_after: int = 1
    """Number of failed rounds after which the status ``down`` is told."""
    reconnects_max: int = 15
    """Number of reconnections within 3 minutes above which ``reconnect_rate_exceeded`` is told."""
    publish_seconds: float = 60
    """Seconds for which a publication is tried."""
    publish_queue_messages: int = 1000
    """Number of publications that may wait for their answer."""
    publish_queue_bytes: int = 1 << 20
    """Bytes of contents and fields in the publications that may wait for their answer."""
    transports: Sequence[str] = TRANSPORTS
    """Names of the transports that are tried, from the fastest down, until one works; a single one is pinned."""
    step_down_seconds: float = 4
    """Seconds for a transport to open, and then for its first frame, while there is another to try after it."""
    step_up_seconds: float = 600
    """Seconds until those above the transport that worked are tried again; each try in vain doubles them, to an
    hour."""

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
