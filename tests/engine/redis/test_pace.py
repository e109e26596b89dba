"""The tail on logs of large messages, and on what it does not expect: it never asks for more than a server can give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from fastpath.core.protocol.messages import Message
from fastpath.engine.redis import entries
from fastpath.engine.redis.entries import GROUPS
from fastpath.engine.redis.pace import READ_BYTES, READ_ENTRIES, Pace, next_count
from tests.support.engine.tails import A, Log, reading
from tests.support.redis import RedisServer
from tests.support.waiting import auntil, run

pytestmark = pytest.mark.redis

LARGE = 256 << 10


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        running.call("CONFIG", "SET", "client-output-buffer-limit", "normal 4608kb 0 0")
        yield running


@pytest.mark.parametrize("small", [0, pytest.param(600, marks=pytest.mark.slow)])
def test_a_node_joins_and_catches_up_where_one_answer_cannot_hold_all(server: RedisServer, small: int) -> None:
    log = Log(server)
    log.epoch(7)
    for number in range(small):
        log.add(f"/s/{number}", "x")
    subjects = [f"/t/{number}" for number in range(288)]
    for subject in subjects:
        log.add(subject, subject.ljust(LARGE, "."))

    async def story() -> None:
        async with reading(server) as node:
            for subject in subjects:
                assert (node.snapshot(subject)[0].rstrip("."), node.of(subject)[:2]) == (subject, (7, 1))
            if small:
                return
            server.freeze()
            try:
                await auntil(lambda: not node.tail.current)
            finally:
                server.thaw()
            for subject in subjects[:100]:
                log.add(subject, "again".ljust(LARGE, "."))
            await auntil(lambda: node.tail.current and all(node.of(one)[1] == 2 for one in subjects[:100]))
            assert node.tail.mended == 0

    run(story())


def test_what_nobody_expected_does_not_end_the_reading(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")
    told: list[str] = []

    def fails_once(messages: Sequence[Message]) -> None:
        told.extend(str(message.content) for message in messages)
        if len(told) == 1:
            raise AttributeError("not foreseen")

    async def story() -> None:
        async with reading(server) as node:
            node.stage.broker.log = fails_once
            log.add(A, "a2")
            await auntil(lambda: node.of(A) == (7, 2, ["a1", "a2"]) and node.tail.current)
            assert (told, node.tail.mended) == (["a2", "a2"], 0)

    run(story())


def _answer(pace: Pace, sizes: Sequence[int]) -> tuple[int, int]:
    """One read of logs that go on for ever; how many groups were read, and entries of each."""
    groups, count = pace.next()
    for group in groups:
        pace.read(group, [[b"7-1", [b"s", b"/a", b"q", b"1", b"t", b"1", b"p", b"x" * sizes[group]]]] * count)
    return len(groups), count


def test_small_entries_are_soon_read_many_at_a_time() -> None:
    pace = Pace()
    assert [_answer(pace, [140] * GROUPS) for _ in range(20)][-1] == (GROUPS, READ_ENTRIES)


def test_a_group_of_large_entries_does_not_keep_up_the_others() -> None:
    pace, large = Pace(), entries.group_of(A)
    sizes = [READ_BYTES * 2 if group == large else 140 for group in range(GROUPS)]
    read = [_answer(pace, sizes) for _ in range(40)][-6:]
    assert {count for groups, count in read if groups > 1} == {READ_ENTRIES}
    assert (1, 1) in read


def test_all_are_waited_for_together_once_nothing_more_comes() -> None:
    pace = Pace()
    for _ in range(20):
        _answer(pace, [READ_BYTES] * GROUPS)
    assert (len(pace.next()[0]), pace.next()[1]) == (1, 1)
    for _ in range(100):
        for group in pace.next()[0]:
            pace.read(group, ())
    assert pace.next() == (range(GROUPS), READ_ENTRIES)


def test_less_is_asked_for_after_a_failure_until_everything_has_been_read() -> None:
    pace = Pace()
    for _ in range(20):
        _answer(pace, [1] * GROUPS)
    asked = []
    for _ in range(8):
        groups, count = pace.next()
        asked.append(len(groups) * count)
        pace.failed()
    assert asked == [8000, 2000, 496, 112, 16, 4, 1, 1]
    pace.rested()
    assert pace.next() == (range(GROUPS), READ_ENTRIES)


@pytest.mark.parametrize(
    ("count", "size", "then"),
    [(4, 40, 8), (1500, 1500, 2000), (4, READ_BYTES * 2, 2), (8, READ_BYTES * 99, 1), (1, 0, 2)],
)
def test_how_many_fields_are_asked_for(count: int, size: int, then: int) -> None:
    assert next_count(count, size, 2000) == then
