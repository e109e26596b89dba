"""The cache against a plain model: exactly the missed messages, or a gap; never more than its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.cache.history import MESSAGE_OVERHEAD_BYTES, History
from fastpath.core.delivery.audience import Topic
from fastpath.core.protocol.messages import Message


def message(subject: str, seq: int, time: int, size: int = 10, epoch: int = 1) -> Message:
    """A numbered message."""
    return Message(subject, str(seq), epoch=epoch, seq=seq, time=time, size=size)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(1, 50))),
    st.integers(1, 40),
    st.integers(320, 30_000),
)
def test_it_keeps_a_contiguous_tail_within_every_bound(steps: list, count_max: int, bytes_max: int) -> None:
    """After any run: each ring is a tail without gaps, and N, T and the budget hold."""
    history = History(count_max, 100, bytes_max)
    topics = {"a": Topic("/a/a", 1, 1), "b": Topic("/b/b", 2, 1), "c": Topic("/c/c", 3, 1)}
    sent: dict[str, list] = {"a": [], "b": [], "c": []}
    now = 0
    for subject, pause, size in steps:
        now += pause
        one = message(subject, len(sent[subject]) + 1, now, size)
        sent[subject].append(one)
        history.append(topics[subject], one)
        history.expire(now)
        rings = {name: topic.ring or [] for name, topic in topics.items()}
        for name, ring in rings.items():
            tail = sent[name][len(sent[name]) - len(ring) :]
            assert list(ring) == tail
            assert len(ring) <= count_max
            assert all(kept.time > now - 100 for kept in ring)
        assert (
            history.bytes
            == sum(kept.size + MESSAGE_OVERHEAD_BYTES for ring in rings.values() for kept in ring)
            <= bytes_max
        )
        assert history.messages == sum(map(len, rings.values()))


@given(st.integers(0, 12), st.integers(-1, 14), st.integers(1, 20))
def test_since_answers_exactly_the_missed_ones_or_a_gap(published: int, seen: int, count_max: int) -> None:
    """For every position that a client may come back with."""
    history, topic = History(count_max, 1000, 10**6), Topic("/a/b", 1, 1)
    for seq in range(1, published + 1):
        history.append(topic, message("/a/b", seq, 0))
    topic.seq = published
    missed = history.since(topic, 1, seen)
    wanted = list(range(seen + 1, published + 1))
    if 0 <= seen <= published and len(wanted) <= count_max:
        assert missed is not None
        assert [one.seq for one in missed] == wanted
    else:
        assert missed is None


@given(st.data())
def test_recovery_over_epochs_against_the_chain(data: st.DataObject) -> None:
    """Each epoch keeps the chain up to where it begins and numbers on: exactly what stands after a position, or a gap.

    A client has read up to some number of the chain as it was in some epoch. What it is owed is what stands now after
    the last message of its own that still stands, if none of its own was numbered again.
    """
    history, topic = History(data.draw(st.integers(1, 30)), 10_000, 10**6), Topic("/a/b", 1, 1)
    chain: list[Message] = []  # what stands
    chains: list[tuple[int, list[Message]]] = []  # what stood at some time in an epoch
    for epoch in range(1, data.draw(st.integers(2, 5))):
        if epoch > 1:
            chain = chain[: data.draw(st.integers(0, len(chain)), label="what stands of it")]
        for _ in range(data.draw(st.integers(1, 6), label="messages")):
            one = message("/a/b", len(chain) + 1, 0, epoch=epoch)
            if one.epoch != topic.epoch:
                history.cut(topic, one.seq)
                if not topic.ring and topic.seq == one.seq - 1:
                    topic.floor = topic.epoch
                topic.epoch = one.epoch
            chain = [*chain, one]
            topic.seq = one.seq
            history.append(topic, one)
            chains.append((epoch, chain))
    assert [one.seq for one in topic.ring] == list(range(topic.ring[0].seq, topic.seq + 1))
    for epoch, stood in chains:
        read = data.draw(st.integers(1, len(stood)))
        missed = history.since(topic, epoch, read)
        still = stood[:read] == chain[:read]
        assert missed is None or (still and missed == chain[read:])
        if still and read >= topic.ring[0].seq:
            assert missed is not None


def test_a_number_above_the_next_empties_the_ring() -> None:
    """What lies between is not there: nobody recovers across it."""
    history, topic = History(10, 1000, 10**6), Topic("/a/b", 1, 1)
    history.append(topic, message("/a/b", 1, 0))
    history.append(topic, message("/a/b", 3, 0))
    topic.seq = 3
    assert [one.seq for one in topic.ring] == [3]
    assert history.since(topic, 1, 1) is None
    assert history.bytes == 10 + MESSAGE_OVERHEAD_BYTES


def test_the_newest_n() -> None:
    """Oldest first; above the cache all of it; none for 0."""
    history, topic = History(3, 1000, 10**6), Topic("/a/b", 1, 1)
    for seq in range(1, 6):
        history.append(topic, message("/a/b", seq, 0))
    assert [one.seq for one in history.newest(topic.ring, 2)] == [4, 5]
    assert [one.seq for one in history.newest(topic.ring, 99)] == [3, 4, 5]
    assert history.newest(topic.ring, 0) == history.newest(None, 5) == []
    assert history.evicted_by_count == 2


def test_a_clock_set_back_does_not_stop_eviction() -> None:
    """The budget holds whatever the clock does."""
    history, topic = History(100, 1000, 930), Topic("/a/b", 1, 1)
    for seq, time in enumerate((1000, 900, 100, 50, 2000), 1):
        history.append(topic, message("/a/b", seq, time))
        assert history.bytes <= 930
    assert history.evicted_by_memory == 2


def test_what_is_dated_later_than_a_clock_that_was_set_back_expires_all_the_same() -> None:
    """An hour's jump forward and back, in the middle of it."""
    history, topics = History(100, 1000, 10**6), [Topic("/a/b", 1, 1), Topic("/a/c", 2, 1)]
    now, hour = 10_000_000, 3_600_000
    history.expire(now)
    for seq, time in enumerate((now, now + hour, now + hour, now + 10), 1):
        for topic in topics:
            history.append(topic, message("/a/b", seq, time))
        history.expire(time)
    history.expire(now + 1009)
    assert history.messages == 6
    history.expire(now + 1011)
    assert history.messages == 0


def test_without_a_cache_nothing_is_kept() -> None:
    """cache_messages = 0."""
    history, topic = History(0, 1000, 1000), Topic("/a/b", 1, 1)
    history.append(topic, message("/a/b", 1, 0))
    assert topic.ring is None
    assert history.bytes == 0
