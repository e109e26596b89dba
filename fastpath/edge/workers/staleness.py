"""What the figures of a worker are worth that has not told any for a while: it hangs, or is stopped."""

from __future__ import annotations

SILENT_SECONDS = 2.5
"""Workers tell theirs each second."""

_OF_THE_LAST_SECOND = ("_per_s", "_percent", "_p50_ms", "_p99_ms")


def told_since(figures: dict[str, float], seconds: float) -> dict[str, float]:
    """Return the figures as they are so many seconds later: what was of a last second is over, and the loop is late.

    Counters, and what the worker holds (clients, memory), stay: they are still there.
    """
    if seconds < SILENT_SECONDS:
        return figures
    stale = {name: 0.0 for name in figures if name.endswith(_OF_THE_LAST_SECOND)}
    return figures | stale | {"silent_s": round(seconds, 1), "loop_lag_ms": round(seconds * 1000)}
