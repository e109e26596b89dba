"""Rows of senders (protocol.md 8.11) of several workers or nodes as one list, and which of them are shown."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest
from typing import Any

Row = dict[str, Any]
"""A sender: its ``user``, ``kind`` and ``name``, and numbers."""

_OLDEST = frozenset({"last_ms", "oldest_ms", "uncommitted_ms"})
"""Those of its numbers that are no sums."""


def together(rows: Iterable[Row]) -> list[Row]:
    """Make one row of each sender, of what is told of it here and there. Nothing may have been left out of that."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        known = found.setdefault((row["user"], row["kind"], row["name"]), {})
        for name, value in row.items():
            if isinstance(value, str):
                known[name] = value
            elif name in _OLDEST:
                known[name] = max(known.get(name, 0), value)
            else:
                known[name] = known.get(name, 0) + value
    return list(found.values())


def shown(rows: list[Row], count: int) -> list[Row]:
    """The busiest first; of the others those of whom something waits, then those who sent last.

    Of more than ``count`` up to a half is kept for those of whom something waits for the longest time: what is stuck is
    seen, however many are busy.
    """
    if len(rows) > count:
        stuck = [row for row in nlargest(count // 2, rows, key=_waits_ms) if _waits_ms(row)]
        kept = set(map(id, stuck))
        rows = stuck + nlargest(count - len(stuck), [row for row in rows if id(row) not in kept], key=_weight)
    return sorted(rows, key=_weight, reverse=True)


def _weight(row: Row) -> tuple[float, bool, int]:
    return row["messages_per_s"], bool(row.get("uncommitted") or row.get("unacknowledged")), row["last_ms"]


def _waits_ms(row: Row) -> int:
    """For how long the oldest of what has no answer, or is not committed, has been there."""
    return max(int(row.get("oldest_ms", 0)), int(row.get("uncommitted_ms", 0)))
