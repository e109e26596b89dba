"""Whoever follows the cache is told of each message that leaves it, and why."""

from __future__ import annotations

import pytest

from fastpath.core.cache.history import MESSAGE_OVERHEAD_BYTES, History
from fastpath.core.delivery.audience import Topic
from fastpath.core.protocol.messages import Message


def cached(history: History, topic: Topic, seq: int, time: int = 0) -> None:
    """Cache a message, as the broker does."""
    message = Message(topic.subject, "x", seq=seq, epoch=1, time=time)
    message.weigh()
    topic.seq = seq
    history.append(topic, message)


@pytest.fixture
def topic() -> Topic:
    return Topic("/t/a", 1, 1)


@pytest.fixture
def told() -> list[tuple[int, str]]:
    return []


def follow(history: History, told: list[tuple[int, str]]) -> History:
    history.told = lambda message, cause: told.append((message.seq, cause))
    return history


def test_by_count(topic: Topic, told: list[tuple[int, str]]) -> None:
    history = follow(History(2, 1000, 1 << 20), told)
    for seq in range(1, 5):
        cached(history, topic, seq)
    assert told == [(1, "count"), (2, "count")]


def test_by_age(topic: Topic, told: list[tuple[int, str]]) -> None:
    history = follow(History(10, 1000, 1 << 20), told)
    for seq in range(1, 4):
        cached(history, topic, seq, time=seq * 100)
    history.expire(1250)
    assert told == [(1, "age"), (2, "age")]


def test_by_memory(topic: Topic, told: list[tuple[int, str]]) -> None:
    history = follow(History(10, 1000, 2 * (MESSAGE_OVERHEAD_BYTES + 1)), told)
    for seq in range(1, 4):
        cached(history, topic, seq)
    assert told == [(1, "memory")]


def test_what_an_epoch_numbers_again_and_what_a_gap_makes_useless(topic: Topic, told: list[tuple[int, str]]) -> None:
    history = follow(History(10, 1000, 1 << 20), told)
    for seq in range(1, 5):
        cached(history, topic, seq)
    history.cut(topic, 3)
    assert told == [(4, "void"), (3, "void")]
    told.clear()
    cached(history, topic, 9)
    assert told == [(1, "void"), (2, "void")]
