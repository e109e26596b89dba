"""Pages of a subject's cache: what is on them is a part without a gap, and ``more`` says whether something is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.cache.history import History, Ring
from fastpath.core.cache.pages import Page, PageRoom, behind, newest
from fastpath.core.protocol.messages import Message


class Chained:
    """A subject as the cache sees it."""

    def __init__(self) -> None:
        self.ring: Ring | None = None
        self.floor = 0
        self.options = None
        self.epoch = 1
        self.seq = 0


def cached(*sizes: int, messages_max: int = 1000) -> tuple[History, Chained]:
    """A subject whose messages have these sizes."""
    history, topic = History(messages_max, 1 << 40, 1 << 40), Chained()
    for seq, size in enumerate(sizes, 1):
        message = Message("/a/b", "x" * size, epoch=1, seq=seq)
        message.weigh()
        topic.seq = seq
        history.append(topic, message)
    return history, topic


def seqs(page: Page | None) -> list[int]:
    """The numbers on a page."""
    assert page is not None
    return [message.seq for message in page.messages]


@pytest.mark.parametrize(
    ("count", "size", "numbers", "more"),
    [
        (3, 100, [3, 4, 5], False),
        (9, 100, [1, 2, 3, 4, 5], False),
        (3, 20, [4, 5], True),
        (3, 5, [5], True),
    ],
)
def test_the_newest(count: int, size: int, numbers: list[int], more: bool) -> None:
    _, topic = cached(10, 10, 10, 10, 10)
    page = newest(topic, count, PageRoom(100, size))
    assert (seqs(page), page.more) == (numbers, more)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 5), st.integers(1, 100))
def test_page_by_page_everything_comes_once(sizes: list[int], count: int, size: int) -> None:
    history, topic = cached(*sizes)
    found: list[int] = []
    for _ in range(len(sizes) + 1):
        page = behind(history, topic, 1, len(found), count, PageRoom(100, size))
        found += seqs(page)
        assert page is not None
        assert page.messages or not page.more, "a page of its own brings at least one"
        if not page.more:
            break
    assert found == list(range(1, len(sizes) + 1))


def test_a_room_is_shared() -> None:
    """What has no room on the page of one subject is told as more; of nothing the first message is."""
    history, topic = cached(10, 10)
    room = PageRoom(3, 25)
    assert seqs(behind(history, topic, 1, 0, 9, room)) == [1, 2]
    page = behind(history, topic, 1, 0, 9, room)
    assert page == Page([], True)
    assert (room.messages, room.size) == (1, 5)


def test_what_the_cache_does_not_have() -> None:
    history, topic = cached(1, 1, 1, 1, messages_max=2)
    assert behind(history, topic, 1, 1, 9, PageRoom(9, 9)) is None
    assert seqs(behind(history, topic, 1, 2, 9, PageRoom(9, 9))) == [3, 4]
    assert behind(history, topic, 1, 4, 9, PageRoom(9, 9)) == Page([], False)
    assert behind(history, topic, 1, 5, 9, PageRoom(9, 9)) is None
    assert newest(Chained(), 5, PageRoom(9, 9)) == Page([], False)
