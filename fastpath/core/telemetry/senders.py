"""Rows of senders (protocol.md 8.11) of several workers or nodes as one list, and which of them are shown."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

Row = dict[str, Any]
"""A sender: its ``user``, ``kind`` and ``name``, and numbers."""

_OLDEST = frozenset({"last_ms", "oldest_ms", "uncommitted_ms"})
"""Names of a sender's numbers that are no sums."""


def together(rows: Iterable[Row]) -> list[Row]:
    """Make one row of each sender, of what is told of it here and there. Nothing may have been left out of that."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        known = found.setdefault(_named(row), {})
        for name, value in row.items():
            if isinstance(value, str):
                known[name] = value
            elif name in _OLDEST:
                known[name] = max(known.get(name, 0), value)
            else:
                known[name] = known.get(name, 0) + value
    return list(found.values())


def shown(rows: list[Row], count: int) -> list[Row]:
    """Return the busiest first; of the others those of whom something waits, then those who sent last; of equals by
    name.

    Of more than ``count`` up to a half is kept for those of whom something waits for the longest time: what is stuck is
    seen, however many are busy. The order of the rows that are given does not matter.
    """
    if len(rows) > count:
        stuck = [row for row in nsmallest(count // 2, rows, key=_longest_waiting) if _waits_ms(row)]
        kept = set(map(id, stuck))
        rows = stuck + nsmallest(count - len(stuck), [row for row in rows if id(row) not in kept], key=_busiest)
    return sorted(rows, key=_busiest)


def _busiest(row: Row) -> tuple[Any, ...]:
    waits = bool(row.get("uncommitted") or row.get("unacknowledged"))
    return -row["messages_per_s"], not waits, -row["last_ms"], *_named(row)


def _longest_waiting(row: Row) -> tuple[Any, ...]:
    return -_waits_ms(row), *_named(row)


def _named(row: Row) -> tuple[str, str, str]:
    return row["user"], row["kind"], row["name"]


def _waits_ms(row: Row) -> int:
    """Return for how long the oldest of what has no answer, or is not committed, has been there."""
    return max(int(row.get("oldest_ms", 0)), int(row.get("uncommitted_ms", 0)))
