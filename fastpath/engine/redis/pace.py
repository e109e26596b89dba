"""How much of the logs is read at once, so that an answer stays small however large the messages are (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from .entries import GROUPS, Entry

READ_BYTES = 2 << 20
"""Bytes that one answer should have at most: a moment's work for the server, the network and this process. Below it
entries are not larger than those before them; where they suddenly are, so is one answer."""

READ_ENTRIES = 500
"""Number of entries of one group in one read: what may come where large ones follow small ones is bounded by it."""

UNKNOWN_BYTES = READ_BYTES // GROUPS
"""Bytes that an entry is taken for before any has been read."""

ENTRY_BYTES = 100
"""Bytes of an entry beside its payload."""

ALL = range(GROUPS)


class Pace:
    """Chooses which groups are read next and how many entries of each, by the size of those that came last."""

    def __init__(self) -> None:
        self._sizes = [UNKNOWN_BYTES] * GROUPS
        self._first = 0
        self._most = READ_ENTRIES * GROUPS
        self._asked = 0

    def begin(self) -> None:
        """Begin anew: a lot was not read, and what comes may be of any size."""
        self._sizes = [UNKNOWN_BYTES] * GROUPS

    def next(self) -> tuple[Sequence[int], int]:
        """Return the groups to be read, and the entries of each at most. Where not all groups are, the others are
        next."""
        groups: Sequence[int] = ALL
        total = sum(self._sizes)
        if total > READ_BYTES or self._most < GROUPS:
            groups, total = self._some()
        count = max(1, min(READ_ENTRIES, READ_BYTES // total, self._most // len(groups)))
        self._asked = count * len(groups)
        return groups, count

    def _some(self) -> tuple[list[int], int]:
        groups: list[int] = []
        total = 0
        for group in (*ALL[self._first :], *ALL[: self._first]):
            size = self._sizes[group]
            if groups and (total + size > READ_BYTES or len(groups) >= self._most):
                break
            groups.append(group)
            total += size
        self._first = (groups[-1] + 1) % GROUPS
        return groups, total

    def read(self, group: int, rows: Sequence[Entry]) -> None:
        """Note which entries came of a group that was asked for; it may be none.

        A larger size counts at once, a smaller one by and by.
        """
        size = ENTRY_BYTES
        if rows:
            size += _bytes(rows) // len(rows)
        before = self._sizes[group]
        self._sizes[group] = size if size > before else (size + before) // 2

    def failed(self) -> None:
        """Note that the answer did not come in time: no read asks for as much again until ``rested``."""
        self._most = max(1, self._asked // 4)

    def rested(self) -> None:
        """Note that everything has been read."""
        self._most = READ_ENTRIES * GROUPS


def next_count(count: int, size: int, most: int) -> int:
    """Return how many fields of a hash to ask for after ``count`` have brought ``size`` bytes; at most ``most``."""
    return max(1, min(most, count * 2, count * READ_BYTES // max(1, size)))


def _bytes(rows: Sequence[Entry]) -> int:
    try:
        return sum([len(row[1][7]) for row in rows])  # the payload
    except IndexError:  # one of them is no entry of this version
        return sum(len(part) for row in rows for part in row[1])
