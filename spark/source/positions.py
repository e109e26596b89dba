"""The arithmetic of offsets, without I/O: which messages a batch takes, and how they are shared out among tasks.

An offset is ``{subject: [epoch, seq]}``: so far each subject has been read. EARLIEST stands for a subject that was
there when the query began and is read from the oldest that is cached; one that is not in the offset has come to be
since, and is read from its first message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fastpath.client.publisher.reading import Head, Range

Position = Sequence[int]
"""Epoch and sequence number, as JSON has them."""

Offset = dict[str, Position]

EARLIEST = (0, 0)
"""Position before all that is cached, whatever that is when it is read."""


class Share(NamedTuple):
    """The ranges that one task reads."""

    ranges: list[Range]
    rows: int


def begin(start: str | Mapping[str, Position], heads: Mapping[str, Head]) -> Offset:
    """Return where a query begins: ``earliest``, ``latest``, ``time`` for where the heads say that subjects stood then,
    or given positions, and the earliest of the subjects that these do not name."""
    if isinstance(start, str):
        place = {
            "earliest": lambda head: EARLIEST,
            "latest": lambda head: (head.epoch, head.seq),
            "time": lambda head: head.then or EARLIEST,
        }[start]
        return {subject: place(head) for subject, head in heads.items()}
    return dict.fromkeys(heads, EARLIEST) | dict(start)


def advance(
    start: Mapping[str, Position], heads: Mapping[str, Head], rows_max: int | None = None, after: str = ""
) -> Offset:
    """Return the end of the next batch: all that there is, or of each subject a fair part of ``rows_max`` messages.

    No subject gets less than another that has as much to read. Where there is not even one message for each, they take
    turns: those that come behind ``after`` in their order first.
    """
    end = dict(start)
    behind = {subject: head for subject, head in heads.items() if is_behind(start.get(subject), head)}
    if rows_max is None:
        return end | {subject: (head.epoch, head.seq) for subject, head in behind.items()}
    rows = {subject: rows_behind(start.get(subject), head) for subject, head in behind.items()}
    left, count = rows_max, len(rows)
    turn = sorted(rows, key=lambda subject: (rows[subject], subject <= after, subject))
    if count > rows_max:
        turn = sorted(rows, key=lambda subject: (subject <= after, subject))
    for subject in turn:
        take = min(rows[subject], max(left // count, 1))
        if left <= 0:
            break
        left, count = left - take, count - 1
        end[subject] = _moved(start.get(subject), behind[subject], take)
    return end


def is_behind(position: Position | None, head: Head) -> bool:
    """Return True if there is something to read. A server that has not come so far itself has nothing."""
    return head.seq > 0 and (position is None or tuple(position) < (head.epoch, head.seq))


def rows_behind(position: Position | None, head: Head) -> int:
    """About how many messages there are to read; at least one."""
    cached = head.seq - head.first + 1
    if position is None or tuple(position) == EARLIEST:
        return max(cached, 1)
    return max(min(head.seq - position[1], cached) if head.seq >= position[1] else cached, 1)


def _moved(position: Position | None, head: Head, take: int) -> Position:
    """Return the position ``take`` messages on."""
    cached = head.first - 1
    seq = cached if position is None else max(position[1], cached)
    return (head.epoch, min(seq + take, head.seq)) if seq < head.seq else (head.epoch, head.seq)


def ranges(start: Mapping[str, Position], end: Mapping[str, Position]) -> list[Range]:
    """Return what a batch reads, the same for the same offsets, in the order of the subjects."""
    found = []
    for subject in sorted(end):
        upto, after = _place(end[subject]), start.get(subject)
        if after is None:
            after = (upto[0], 0)
        if tuple(after) != upto and upto != EARLIEST:
            found.append(Range(subject, None if tuple(after) == EARLIEST else _place(after), upto))
    return found


def shares(found: Sequence[Range], heads: Mapping[str, Head], tasks: int, rows_min: int = 1) -> list[Share]:
    """Return the ranges in at most so many parts of about the same size; a subject stays in one part, and in order.

    There are fewer parts where these would be smaller than ``rows_min``.
    """
    sized = [(_rows(one, heads), one) for one in found]
    total = sum(rows for rows, _ in sized)
    tasks = max(1, min(tasks, len(sized), total // max(rows_min, 1)))
    parts = [Share([], 0) for _ in range(tasks)]
    for rows, one in sorted(sized, key=lambda item: (-item[0], item[1].subject)):
        at = min(range(tasks), key=lambda part: parts[part].rows)
        parts[at].ranges.append(one)
        parts[at] = Share(parts[at].ranges, parts[at].rows + rows)
    return [Share(sorted(part.ranges), part.rows) for part in parts if part.ranges]


def _rows(one: Range, heads: Mapping[str, Head]) -> int:
    """About how many messages the range has."""
    head = heads.get(one.subject)
    last = one.upto[1] if one.upto is not None else head.seq if head is not None else 1
    before = one.after[1] if one.after is not None else head.first - 1 if head is not None else 0
    return max(last - before, 1)


def _place(position: Position) -> tuple[int, int]:
    return position[0], position[1]
