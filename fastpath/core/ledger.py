"""Which publications have been stored: a retry is answered with its first position, and stored once (FEATURES C5).

A publisher numbers its publications upwards, over all its connections. So what is above its last number is new and
costs one look, and of the others a window is kept: runs of numbers, each with the positions that they got.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from .messages import Message
from .packets import Position, Refusal

REMEMBERED_MS = 180_000
"""How long a publication's position is kept: as long as a publisher may take to come back and ask."""

PUBLISHERS_MAX = 100_000
"""Publishers whose last number is kept; beyond it those who were quiet longest are forgotten."""

RUNS_MAX = 10_000
"""Runs of one publisher that are kept; of a publisher that sends one message at a time it may be less than the time."""

RUN_MAX = 1000
"""Publications in one run."""

EXPIRED_MAX = 1000
"""Publishers that are looked at in one call of ``expire``."""


class _Run:
    """Publications stored one after the other in one epoch: their numbers rise."""

    __slots__ = ("epoch", "numbers", "seqs", "time")

    def __init__(self, number: int, epoch: int, seq: int, time: int) -> None:
        self.numbers = [number]
        self.seqs = [seq]
        self.epoch = epoch
        self.time = time


class _Publisher:
    __slots__ = ("forgotten", "last", "runs", "time")

    def __init__(self, last: int, time: int) -> None:
        self.last = last
        self.time = time
        self.forgotten = last  # up to here nothing is known
        self.runs: deque[_Run] = deque()


class Ledger:
    """The publications of all publishers, each named by its key."""

    def __init__(self) -> None:
        self._publishers: dict[str, _Publisher] = {}  # the one that has been quiet longest comes first

    def find(self, publisher: str, publication: int) -> Position | Refusal | None:
        """None for a new publication, the position of one that has been stored, or why it cannot be told."""
        known = self._publishers.get(publisher)
        if known is None or publication > known.last:
            return None
        if publication <= known.forgotten:
            return "stale", f"publication {publication} is older than what is remembered; the last is {known.last}"
        for run in reversed(known.runs):
            if publication >= run.numbers[0]:
                at = bisect_right(run.numbers, publication) - 1
                if run.numbers[at] == publication:
                    return run.epoch, run.seqs[at]
                break
        return "out_of_order", f"publication {publication} comes after {known.last}: numbers rise"

    def note(self, publisher: str, publication: int, epoch: int, seq: int, now: int) -> None:
        """A publication that ``find`` did not know has been stored."""
        known = self._publishers.get(publisher)
        if known is None:
            if len(self._publishers) >= PUBLISHERS_MAX:
                del self._publishers[next(iter(self._publishers))]
            known = self._publishers[publisher] = _Publisher(0, now)
        runs = known.runs
        if runs and (run := runs[-1]).time == now and run.epoch == epoch and len(run.numbers) < RUN_MAX:
            run.numbers.append(publication)
            run.seqs.append(seq)
        else:
            runs.append(_Run(publication, epoch, seq, now))
            if len(runs) > RUNS_MAX:
                known.forgotten = runs.popleft().numbers[-1]
            _forget(known, now - REMEMBERED_MS)
            if known.time != now:
                known.time = now
                self._publishers[publisher] = self._publishers.pop(publisher)
        known.last = publication

    def undo(self, publisher: str, publication: int) -> None:
        """What was noted last of the publisher has not been stored after all."""
        known = self._publishers[publisher]
        run = known.runs[-1]
        assert run.numbers[-1] == publication
        run.numbers.pop()
        run.seqs.pop()
        if not run.numbers:
            known.runs.pop()
        known.last = known.runs[-1].numbers[-1] if known.runs else known.forgotten

    def expire(self, now: int) -> None:
        """Forget positions that are older than ``REMEMBERED_MS``: of those publishers first who were quiet longest."""
        limit = now - REMEMBERED_MS
        for known in islice(self._publishers.values(), EXPIRED_MAX):
            _forget(known, limit)

    def learn(self, messages: Iterable[Message]) -> None:
        """Know what has been stored by messages that were kept, in whatever order they come, of publishers that are not
        known yet."""
        numbered = [message for message in messages if message.publication]
        for message in sorted(numbered, key=lambda message: (message.publisher or "", message.publication)):
            self.note(message.publisher or "", message.publication, message.epoch, message.seq, message.time)

    def publishers(self) -> Iterator[tuple[str, int, int]]:
        """Each publisher's key, last number and when that was (ms): what outlives the positions."""
        for key, known in list(self._publishers.items()):
            yield key, known.last, known.time

    def restore(self, publisher: str, last: int, time: int) -> None:
        """Know a publisher's last number again, and none of its positions."""
        known = self._publishers.get(publisher)
        if known is None or known.last < last:
            self._publishers[publisher] = _Publisher(last, time)


def _forget(known: _Publisher, limit: int) -> None:
    while known.runs and known.runs[0].time <= limit:
        known.forgotten = known.runs.popleft().numbers[-1]
