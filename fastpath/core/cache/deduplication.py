"""Which publications have been stored: a retry is answered with its first position, and stored once (features.md C5).

A publisher numbers its publications upwards, over all its connections. So what is above its last number is new and
costs one look. Of the others a window is kept: runs of numbers without a gap, each with the positions that they got.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from ..protocol.messages import Message
from ..protocol.packets import Position, Refusal

REMEMBERED_MS = 180_000
"""Milliseconds for which a publication's position is kept: as long as a publisher may take to come back and ask."""

PUBLISHERS_MAX = 100_000
"""Publishers whose last number is kept; beyond it those who were quiet longest are forgotten."""

PUBLISHED_MAX = 320_000
"""Positions of one publisher that are kept: twice what it may have without acknowledgement."""

KEPT_MAX = 8_000_000
"""Positions over all, 8 bytes each; beyond it those of publishers who were quiet longest go."""

RUN_MAX = 10_000
"""Publications in one run."""

RUN_MS = 1000
"""Milliseconds that a run may take: what it holds is forgotten together."""

RUN_COST = 40
"""A run takes as much memory as so many positions."""

EXPIRED_MAX = 1000
"""Publishers that are looked at in one call of ``expire``."""


class _Numbers:
    """Publications stored one after the other in one epoch, numbered from ``first`` on without a gap."""

    __slots__ = ("began", "epoch", "first", "seqs", "time")

    def __init__(self, first: int, epoch: int, seq: int, time: int) -> None:
        self.first = first
        self.seqs = array("q", (seq,))
        self.epoch = epoch
        self.began = self.time = time

    @property
    def last(self) -> int:
        """The number of the run's last publication."""
        return self.first + len(self.seqs) - 1


class _Publisher:
    __slots__ = ("cost", "forgotten", "last", "runs", "time")

    def __init__(self, last: int, time: int) -> None:
        self.last = last
        self.time = time
        self.forgotten = last  # up to here nothing is known
        self.cost = 0
        self.runs: deque[_Numbers] = deque()


class Deduplicator:
    """The publications of all publishers, each named by its key."""

    def __init__(self) -> None:
        self._publishers: dict[str, _Publisher] = {}  # the one that has been quiet longest comes first
        self._active: dict[str, _Publisher] = {}  # in the same order, those of whom positions are kept
        self.cost = 0
        """Size of what is kept, counted in positions."""

    def find(self, publisher: str, publication: int) -> Position | Refusal | None:
        """Return None for a new publication, the position of one that has been stored, or why that cannot be told."""
        known = self._publishers.get(publisher)
        if known is None or publication > known.last:
            return None
        for run in reversed(known.runs):
            if publication >= run.first:
                if publication <= run.last:
                    return run.epoch, run.seqs[publication - run.first]
                break
        if publication <= known.forgotten:
            return "stale", f"publication {publication} is older than what is remembered; the last is {known.last}"
        return "out_of_order", f"publication {publication} comes after {known.last}: numbers rise"

    def note(self, publisher: str, publication: int, epoch: int, seq: int, now: int) -> None:
        """Note that a publication has been stored that ``find`` did not know."""
        known = self._publishers.get(publisher)
        if known is None:
            known = self._begin(publisher, 0, now)
        runs = known.runs
        run = runs[-1] if runs else None
        if (
            run is not None
            and publication - run.first == len(run.seqs)
            and run.epoch == epoch
            and 0 <= now - run.began < RUN_MS
            and len(run.seqs) < RUN_MAX
        ):
            run.seqs.append(seq)
            run.time = now
            known.cost += 1
            self.cost += 1
        else:
            runs.append(_Numbers(publication, epoch, seq, now))
            known.cost += RUN_COST
            self.cost += RUN_COST
            self._keep_bounds(publisher, known, now)
        known.last = publication

    def last(self, publisher: str) -> int:
        """Return the publisher's last number; 0 for one that is not known."""
        known = self._publishers.get(publisher)
        return known.last if known is not None else 0

    def advance(self, publisher: str, last: int, now: int) -> None:
        """Note that all publications up to ``last`` have been stored; where is not remembered."""
        known = self._publishers.get(publisher)
        if known is None:
            known = self._begin(publisher, last, now)
        if last >= known.last:
            known.last = known.forgotten = last
        self._keep_bounds(publisher, known, now)

    def undo(self, publisher: str, publication: int) -> None:
        """Take back the publisher's newest note, as its publication has not been stored after all."""
        known = self._publishers[publisher]
        run = known.runs[-1]
        assert run.last == publication
        run.seqs.pop()
        cost = 1
        if not run.seqs:
            known.runs.pop()
            cost = RUN_COST
        known.cost -= cost
        self.cost -= cost
        known.last = max(known.runs[-1].last, known.forgotten) if known.runs else known.forgotten

    def expire(self, now: int) -> None:
        """Forget positions that are older than ``REMEMBERED_MS``; of who goes on publishing ``note`` does."""
        for publisher, known in list(islice(self._active.items(), EXPIRED_MAX)):
            self._forget(known, now - REMEMBERED_MS)
            if not known.runs:
                del self._active[publisher]

    def learn(self, messages: Iterable[Message]) -> None:
        """Know what has been stored by messages that were kept, in whatever order they come, of publishers that are not
        known yet. Of what lies between nobody can tell whether it was stored: it counts as forgotten."""
        numbered = [message for message in messages if message.publication]
        for message in sorted(numbered, key=lambda message: (message.publisher or "", message.publication)):
            self.note(message.publisher or "", message.publication, message.epoch, message.seq, message.time)
        for publisher in {message.publisher or "" for message in numbered}:
            known = self._publishers[publisher]
            known.forgotten = known.last

    def publishers(self) -> Iterator[tuple[str, int, int]]:
        """Yield each publisher's key, last number and its time (ms): what outlives the positions."""
        for key, known in list(self._publishers.items()):
            yield key, known.last, known.time

    def restore(self, publisher: str, last: int, time: int) -> None:
        """Know a publisher's last number again, and none of its positions."""
        known = self._publishers.get(publisher)
        if known is None or known.last < last:
            self.cost -= known.cost if known is not None else 0
            self._active.pop(publisher, None)
            self._publishers[publisher] = _Publisher(last, time)

    def _begin(self, publisher: str, last: int, now: int) -> _Publisher:
        if len(self._publishers) >= PUBLISHERS_MAX:
            quietest = next(iter(self._publishers))
            self._active.pop(quietest, None)
            self.cost -= self._publishers.pop(quietest).cost
        known = self._publishers[publisher] = _Publisher(last, now)
        return known

    def _keep_bounds(self, publisher: str, known: _Publisher, now: int) -> None:
        """Keep the bounds, as the publisher has a new run."""
        self._forget(known, now - REMEMBERED_MS)
        while known.cost > PUBLISHED_MAX and len(known.runs) > 1:
            self._forget_oldest(known)
        if known.time != now or publisher not in self._active:
            known.time = now
            self._publishers[publisher] = self._publishers.pop(publisher)
            self._active.pop(publisher, None)
            self._active[publisher] = known
        if self.cost > KEPT_MAX:
            self._let_go(known)

    def _let_go(self, known: _Publisher) -> None:
        """Forget the publishers that were quiet longest, never ``known``, when all notes together pass their bound."""
        while self.cost > KEPT_MAX:
            publisher, other = next(iter(self._active.items()))
            if other is known:
                break
            while other.runs and self.cost > KEPT_MAX:
                self._forget_oldest(other)
            if not other.runs:
                del self._active[publisher]

    def _forget(self, known: _Publisher, limit: int) -> None:
        while known.runs and known.runs[0].time <= limit:
            self._forget_oldest(known)

    def _forget_oldest(self, known: _Publisher) -> None:
        run = known.runs.popleft()
        known.forgotten = max(known.forgotten, run.last)
        cost = RUN_COST + len(run.seqs) - 1
        known.cost -= cost
        self.cost -= cost
