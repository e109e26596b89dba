"""What lies between two positions, against a plain model of the chain: exactly that, or it says what is missing."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastpath.core.auth.grants import Grants
from fastpath.core.broker.broker import Broker
from fastpath.core.cache.cache_range import EVICTED, REPLACED, Lost, before, chain, is_ahead, part, span
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message
from fastpath.engine.memory import MemoryEngine

SUBJECT = "/a/b"


class Chain:
    """A subject of a real broker, and every message that stood at each moment."""

    def __init__(self, cached: int) -> None:
        self.broker = Broker(
            MemoryEngine(1), Grants(), Limits(cache_messages=cached), server="s", started=0, secret=b"s" * 16
        )
        self.topic = self.broker.topic(SUBJECT, 1)
        self.whole: list[Message] = []
        self.epoch = 1
        self.marks: list[tuple[tuple[int, int], list[Message]]] = []

    def add(self, count: int) -> None:
        """Some messages more."""
        for _ in range(count):
            message = Message(SUBJECT, "x", epoch=self.epoch, seq=len(self.whole) + 1, time=len(self.whole))
            message.weigh()
            self.whole.append(message)
            self.broker.deliver((message,))

    def begin(self, back: int) -> None:
        """An epoch that numbers the last ``back`` messages again."""
        self.epoch += 1
        del self.whole[max(len(self.whole) - back, 0) :]
        self.add(1)

    def mark(self) -> None:
        """Somebody has read so far."""
        self.marks.append(((self.topic.epoch, self.topic.seq), list(self.whole)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.just("begin"), st.integers(0, 4)),
        st.tuples(st.just("mark"), st.none()),
    ),
    min_size=2,
    max_size=25,
)


def run(steps: Any, cached: int) -> Chain:
    """A chain after these steps, marked at both ends."""
    subject = Chain(cached)
    subject.add(1)
    subject.mark()
    for step, count in steps:
        getattr(subject, step)(*() if count is None else (count,))
    subject.mark()
    return subject


@given(STEPS, st.integers(1, 12), st.integers(0, 26), st.integers(0, 26))
@example([("begin", 1), ("mark", None), ("add", 2)], 1, 0, 1)
@example([("begin", 1), ("mark", None), ("add", 1), ("add", 1)], 1, 0, 1)
@example([("begin", 1), ("mark", None), ("add", 3)], 2, 0, 1)
@example([("add", 3), ("mark", None), ("begin", 2), ("mark", None), ("add", 5)], 3, 1, 2)
def test_exactly_what_lies_between_or_what_is_missing(steps: Any, cached: int, mark: int, another: int) -> None:
    subject = run(steps, cached)
    first, last = sorted((mark % len(subject.marks), another % len(subject.marks)))
    (after, had), (upto, wanted) = subject.marks[first], subject.marks[last]
    assert not is_ahead(subject.topic, upto)
    found = span(subject.topic, after, upto)
    told = part(chain(subject.topic), found.at, found.length)
    owed = [message for message in wanted if not any(message is one for one in had)]
    there = [message for message in owed if any(message is one for one in subject.topic.ring or ())]
    assert [(one.epoch, one.seq) for one in told] == [(one.epoch, one.seq) for one in there]
    if not found.lost:
        assert len(told) == len(owed)
        assert wanted[: len(had)] == had or any(message is not one for message, one in zip(wanted, had, strict=False))
    for lost in found.lost:
        assert 0 < lost.first <= lost.last
    if len(there) < len(owed):
        assert found.lost
    for message in owed:
        if message.seq > after[1] and not any(message is one for one in there):
            assert any(lost.first <= message.seq <= lost.last for lost in found.lost)
    if wanted[: len(had)] == had and len(there) == len(owed) and subject.epoch == 1:
        assert not found.lost


@given(STEPS, st.integers(1, 12))
def test_all_that_is_cached(steps: Any, cached: int) -> None:
    subject = run(steps, cached)
    found = span(subject.topic, None, None)
    assert part(chain(subject.topic), found.at, found.length) == list(subject.topic.ring or ())
    assert not found.lost


def test_what_is_evicted_is_named() -> None:
    subject = Chain(3)
    subject.add(2)
    subject.mark()
    subject.add(5)
    assert span(subject.topic, subject.marks[0][0], None) == (0, 3, (Lost(3, 4, EVICTED),))
    # Of the first three nothing is left, and nothing behind them was asked for.
    assert span(subject.topic, (1, 0), (1, 3)) == (0, 0, (Lost(1, 3, EVICTED),))
    assert is_ahead(subject.topic, (1, 8))


def test_what_an_epoch_replaced_is_named() -> None:
    subject = Chain(10)
    subject.add(6)
    subject.mark()
    subject.begin(2)  # 5 is another one now, and 6 is not there
    (after, _) = subject.marks[0]
    assert span(subject.topic, (1, 4), after) == (4, 0, (Lost(5, 6, REPLACED),))
    assert span(subject.topic, after, (2, 5)) == (4, 1, (Lost(5, 6, REPLACED),))
    assert span(subject.topic, (1, 4), (2, 5)) == (4, 1, ())


@pytest.mark.parametrize(("cached", "more"), [(1, 2), (2, 3), (1, 200), (100, 200)])
def test_what_an_epoch_put_in_place_of_what_was_read_is_told_when_it_is_evicted(cached: int, more: int) -> None:
    subject = Chain(cached)
    subject.add(1)
    subject.mark()
    subject.begin(1)  # another number 1
    subject.mark()
    subject.add(more)
    after, upto = subject.marks[0][0], subject.marks[1][0]
    assert (after, upto) == ((1, 1), (2, 1))
    assert span(subject.topic, after, upto) == (0, 0, (Lost(1, 1, REPLACED),))
    evicted = Lost(2, 1 + more - cached, EVICTED)
    assert span(subject.topic, after, None) == (0, cached, (Lost(1, 1, REPLACED), evicted))


@given(st.integers(0, 6000), st.integers(0, 6000), st.integers(0, 50))
def test_a_part_of_a_ring_is_what_a_slice_is(size: int, at: int, count: int) -> None:
    ring: Any = deque(range(size))
    assert part(ring, at, count) == list(range(size))[at : at + count]
    assert ring == deque(range(size))
    assert part(list(range(size)), at, count) == list(range(size))[at : at + count]


@given(st.lists(st.integers(0, 20), max_size=20), st.integers(0, 21))
def test_where_a_subject_stood_at_a_time(times: list[int], asked: int) -> None:
    subject = Chain(100)
    for seq, time in enumerate(sorted(times), 1):
        subject.broker.deliver((Message(SUBJECT, "x", epoch=1, seq=seq, time=time),))
    older = sum(time < asked for time in times)
    assert before(subject.topic, asked) == ((1, older) if older else None)
