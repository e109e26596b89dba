"""Which subjects messages come for: exact while they are few, near enough and at a bounded cost when they are many."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.protocol.messages import Message
from fastpath.core.telemetry.heavy_hitters import SAMPLES_MAX, WINDOW_SECONDS, HeavyHitters

BATCHES = st.lists(st.lists(st.sampled_from(["/a/1", "/a/2", "/b"]), min_size=1, max_size=5), max_size=20)


class Feed:
    """Hands messages to a Heat as the broker does, and counts how many it looks at."""

    def __init__(self, start: int = 0) -> None:
        self.number = start
        self.heat = HeavyHitters(start)
        self.looks = 0

    def come(self, subjects: list[str], size: int = 10) -> None:
        """A batch comes."""
        self.number += len(subjects)
        if self.number >= self.heat.next:
            self.looks += 1
            self.heat.look([Message(subject, "", size=size) for subject in subjects], self.number)

    def totals(self) -> tuple[dict[str, list[int]], float]:
        """What came in the window."""
        work = self.heat.totals()
        while True:
            try:
                next(work)
            except StopIteration as end:
                return end.value


@given(BATCHES, BATCHES, st.integers(0, 1000))
def test_few_messages_are_all_counted(first: list[list[str]], second: list[list[str]], start: int) -> None:
    feed = Feed(start)
    for batches in (first, second):
        for batch in batches:
            feed.come(batch, 7)
        feed.heat.turn(feed.number, 1.0)
    count = Counter(subject for batch in (*first, *second) for subject in batch)
    assert feed.totals() == ({subject: [times, 7 * times] for subject, times in count.items()}, 2.0)


@pytest.mark.parametrize("batch", [1, 100, 5000])
def test_of_many_messages_a_bounded_number_is_looked_at_and_the_shares_hold(batch: int) -> None:
    """100 subjects in turns, and one that comes for every fifth message: in step with no distance of samples."""
    feed, per_second = Feed(), 20_000
    turn = 0
    for second in range(4):
        for _ in range(per_second // batch):
            some = []
            for _ in range(batch):
                turn += 1
                some.append("/hot" if turn % 5 == 0 else f"/turn/{turn % 100}")
            feed.come(some)
        assert feed.heat.samples <= (2 if second else 5) * SAMPLES_MAX
        feed.heat.turn(feed.number, 1.0)
    totals, seconds = feed.totals()
    assert seconds == 4
    sent = per_second // batch * batch
    assert totals["/hot"][0] / seconds == pytest.approx(sent / 5, rel=0.15)
    assert sum(count for count, _ in totals.values()) / seconds == pytest.approx(sent, rel=0.1)
    shares = [totals.get(f"/turn/{n}", [0])[0] / seconds for n in range(100) if n % 5]
    assert max(shares) < 3 * sent / 100, "no subject stands for its neighbours"


def test_single_messages_are_passed_by_with_one_comparison() -> None:
    feed, random = Feed(), Random(1)
    for _ in range(20_000):
        feed.come([f"/s/{random.randrange(50)}"])
    feed.heat.turn(feed.number, 1.0)
    feed.looks = 0
    one = ["/s/1"]
    for _ in range(20_000):
        feed.come(one)
    assert feed.heat.every == 20
    assert 800 <= feed.looks == feed.heat.samples <= 1200


def test_what_is_old_is_forgotten_and_after_a_rush_every_message_counts_again() -> None:
    feed = Feed()
    feed.come(["/rush"] * 40_000)
    feed.heat.turn(feed.number, 1.0)
    assert feed.heat.every == 40
    feed.heat.turn(feed.number, 1.0)
    feed.come(["/calm"] * 3)
    feed.heat.turn(feed.number, 2.0)
    totals, seconds = feed.totals()
    assert totals["/calm"] == [3, 30]
    assert totals["/rush"][0] == pytest.approx(40_000, rel=0.1)
    assert seconds == 4.0
    for _ in range(WINDOW_SECONDS):
        feed.heat.turn(feed.number, 1.0)
    assert feed.totals() == ({}, 10.0)


def test_before_the_first_second_is_over_there_is_what_has_come() -> None:
    feed = Feed(5)
    feed.come(["/a/1", "/a/1"])
    assert feed.totals() == ({"/a/1": [2, 20]}, 1.0)
