"""The tail on a real Redis whose logs the tests write by hand: order, gaps, what is void, and servers that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fastpath.core.protocol.messages import Data, Epoch, Subscribe, Subscribed
from fastpath.engine.redis import entries
from tests.support.core.stage import START
from tests.support.engine.tails import REMOVED, A, Log, reading, server
from tests.support.redis import RedisServer
from tests.support.waiting import auntil, run

__all__ = ["server"]

pytestmark = pytest.mark.redis

GROUP = entries.group_of(A)
SAME = next(f"/t/{n}" for n in range(1000) if entries.group_of(f"/t/{n}") == GROUP)
"""Another subject of the same group."""
OTHER = next(f"/t/{n}" for n in range(1000) if entries.group_of(f"/t/{n}") != GROUP)


def test_a_node_joins_with_everything_and_goes_on_live(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    for number in range(1, 4):
        log.add(A, f"a{number}", {f"f{number}": "x"})
    log.add(OTHER, "o1")

    async def story() -> None:
        async with reading(server) as node:
            assert node.of(A) == (7, 3, ["a1", "a2", "a3"])
            assert node.snapshot(A) == ("a3", {"f1": "x", "f2": "x", "f3": "x"})
            assert node.of(OTHER) == (7, 1, ["o1"])
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A], since={A: (7, 2)}))
            log.add(A, "a4")
            await auntil(lambda: node.of(A)[1] == 4)
            assert [seq for _, seq, _ in reader.messages()] == [3, 4]
            assert (GROUP, 7, 4) in node.seen

    run(story())


def test_a_joining_node_knows_the_subjects_whose_messages_are_trimmed(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1", {"bid": "1"})
    log.add(A, "a2")
    log.add(SAME, "s1")
    log.trim(GROUP, 1)

    async def story() -> None:
        async with reading(server) as node:
            assert node.of(A) == (7, 2, [])
            assert node.snapshot(A) == ("a2", {"bid": "1"})
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A, SAME], since={A: (7, 2), SAME: (7, 0)}))
            (answer,) = [one for one in reader.taken() if isinstance(one, Subscribed)]
            assert [one.recovery for one in answer.results] == ["recovered", "recovered"]
            log.add(A, "a3")
            await auntil(lambda: node.of(A) == (7, 3, ["a3"]))

    run(story())


@pytest.mark.parametrize("number", [2, 0], ids=["guaranteed", "standard"])
@pytest.mark.parametrize("trims", [False, True])
def test_a_joining_node_knows_that_a_subject_was_removed(server: RedisServer, trims: bool, number: int) -> None:
    """From the log, or where its messages are trimmed; of what never had a number it keeps nothing."""
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1", {"bid": "1"}, seq=number and 1)
    log.add(A, REMOVED, seq=number)
    log.server.call("HSET", entries.snapshots_key("t", GROUP), f"{A}\0", b"1 \x90")
    log.add(SAME, "s1")
    if trims:
        log.trim(GROUP, 1)

    async def story() -> None:
        async with reading(server) as node:
            if not number:
                assert A not in node.stage.broker.interest.topics
                return
            assert node.of(A) == (7, 2, [] if trims else ["a1", ""])
            assert node.snapshot(A) == (REMOVED, None)
            fresh, back = node.stage.enter("fresh"), node.stage.enter("back")
            fresh.say(Subscribe(id=1, subjects=[A]))
            assert fresh.messages() == []
            back.say(Subscribe(id=1, subjects=[A], since={A: (7, 1)}))
            assert [(one.meta.kind, one.meta.removed) for one in back.taken() if isinstance(one, Data)] == [
                ("snapshot" if trims else "recovered", True)
            ]
            log.add(A, "a3", {"ask": "3"})
            await auntil(lambda: node.of(A)[1] == 3)
            assert node.snapshot(A) == ("a3", {"ask": "3"})

    run(story())


@pytest.mark.parametrize("number", [2, 0], ids=["guaranteed", "standard"])
def test_a_removal_that_was_trimmed_before_it_was_read_is_known(server: RedisServer, number: int) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1", {"bid": "1"}, seq=number and 1)
    log.add(SAME, "s1")

    async def story() -> None:
        async with reading(server) as node:
            assert node.snapshot(A) == ("a1", {"bid": "1"})
            added = [partial(log.add, SAME, f"s{at}") for at in range(2, 5)]
            _at_once(log, partial(log.add, A, REMOVED, seq=number), *added, partial(log.trim, GROUP, 1))
            await auntil(lambda: node.tail.mended == 1)
            await auntil(lambda: node.of(SAME)[1] == 4)
            topic = node.stage.broker.interest.topics[A]
            assert node.stage.broker.snapshot(topic) is None
            assert (topic.seq, topic.snapshot is None) == (number, not number)

    run(story())


def test_entries_that_were_trimmed_before_they_were_read_resynchronise_their_subjects(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")
    log.add(SAME, "s1")

    async def story() -> None:
        async with reading(server) as node:
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A, SAME]))
            reader.taken()
            added = [partial(log.add, A, f"a{number}", {"bid": str(number)}) for number in range(2, 6)]
            _at_once(log, *added, partial(log.trim, GROUP, 1))
            await auntil(lambda: node.tail.mended == 1)
            await auntil(lambda: node.of(A) == (7, 5, []))
            assert node.snapshot(A) == ("a5", {"bid": "5"})
            assert node.of(SAME) == (7, 1, ["s1"]), "nothing of it was missed"
            told = [one for one in reader.taken() if isinstance(one, Epoch)]
            assert [(one.epoch, one.seq) for one in told] == [(7, 5)]
            log.add(A, "a6")
            log.add(SAME, "s2")
            await auntil(lambda: node.of(A) == (7, 6, ["a6"]) and node.of(SAME) == (7, 2, ["s1", "s2"]))
            assert node.tail.mended == 1

    run(story())


def test_the_first_message_of_a_subject_arrives_also_while_others_are_taken_back(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")
    log.add(A, "void")

    async def story() -> None:
        async with reading(server) as node:
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[SAME]))
            reader.taken()
            log.lose(GROUP, 1, {A: 1})
            _at_once(log, partial(log.epoch, 8), partial(log.add, A, "a2"), partial(log.add, SAME, "first"))
            await auntil(lambda: node.of(A) == (8, 2, ["a1", "a2"]))
            assert reader.messages() == [(SAME, 1, "first")]

    run(story())


def test_a_message_under_the_number_of_a_void_one_is_told_also_when_it_was_trimmed(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")
    log.add(A, "void")

    async def story() -> None:
        async with reading(server) as node:
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A]))
            reader.taken()
            log.lose(GROUP, 1, {A: 1})
            _at_once(
                log,
                lambda: log.epoch(8),
                lambda: log.add(A, "a2"),
                lambda: log.add(SAME, "x"),
                partial(log.trim, GROUP, 1),
            )
            told: list[tuple[int, int]] = []

            def all_told() -> bool:
                told.extend((one.epoch, one.seq) for one in reader.taken() if isinstance(one, Epoch))
                return node.of(A) == (8, 2, []) and len(told) > 1

            await auntil(all_told)
            assert told == [(8, 0), (8, 2)], "else it would take its own second message for this one"

    run(story())


def _at_once(log: Log, *actions: Callable[[], None]) -> None:
    """Do this before anybody can read any of it."""
    server = log.server
    calls = []
    server_call, server.call = server.call, lambda *command: calls.append(command)
    try:
        for action in actions:
            action()
    finally:
        server.call = server_call
    lines = "\n".join(f"redis.call({', '.join(_lua(word) for word in call)})" for call in calls)
    server.call("EVAL", lines, 0)


def _lua(word: Any) -> str:
    data = word if isinstance(word, bytes) else str(word).encode()
    return '"' + "".join(f"\\{byte:03d}" for byte in data) + '"'


def test_what_is_void_is_taken_back_also_where_nothing_new_comes(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1", {"bid": "1"})
    log.add(A, "a2", {"void": "x"})
    log.add(OTHER, "o1")
    log.add(OTHER, "o2")

    async def story() -> None:
        async with reading(server) as node:
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A, OTHER]))
            reader.taken()
            log.lose(GROUP, 1, {A: 1})
            log.lose(entries.group_of(OTHER), 1, {OTHER: 1})
            log.epoch(8)
            log.add(A, "new")
            await auntil(lambda: node.of(A) == (8, 2, ["a1", "new"]))
            await auntil(lambda: node.of(OTHER) == (7, 1, ["o1"]))
            told: list[tuple[str, int, int]] = []

            def other_was_told() -> bool:
                events = [one for one in reader.taken() if isinstance(one, Epoch)]
                told.extend((reader.subjects[one.sid], one.epoch, one.seq) for one in events)
                return (OTHER, 7, 1) in told

            await auntil(other_was_told)
            assert node.snapshot(A) == ("new", {"bid": "1"})
            assert (A, 7, 1) in told or (A, 8, 1) in told

    run(story())


def test_an_emptied_redis_resynchronises_everybody(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1", {"bid": "1"})
    log.add(OTHER, "o1")

    async def story() -> None:
        async with reading(server) as node:
            again = Log(server)  # empties it
            await auntil(lambda: not node.tail.current)
            again.epoch(8)
            again.add(A, "b1")
            await auntil(lambda: node.of(A) == (8, 1, ["b1"]))
            await auntil(lambda: node.of(OTHER) == (8, 0, []))
            assert node.snapshot(A) == ("b1", None)
            assert node.stage.broker.interest.topics[OTHER].snapshot is None
            await auntil(lambda: node.tail.current)

    run(story())


def test_a_hung_server_is_left_and_read_again_when_it_answers(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")

    async def story() -> None:
        async with reading(server) as node:
            server.freeze()
            try:
                await auntil(lambda: not node.tail.current)
            finally:
                server.thaw()
            log.add(A, "a2")
            await auntil(lambda: node.of(A) == (7, 2, ["a1", "a2"]) and node.tail.current)
            assert node.tail.mended == 0

    run(story())


def test_a_replica_is_read_and_left_when_it_is_cut_off_or_hangs(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")

    async def story() -> None:
        with RedisServer(replica_of=server, options={"replica-serve-stale-data": "yes"}) as replica:
            await auntil(lambda: server.call("INFO", "replication").get("slave0", {}).get("state") == "online")
            async with reading(server) as node:
                assert node.tail.address == ("127.0.0.1", replica.port)
                replica.call("REPLICAOF", "127.0.0.1", 1)
                log.add(A, "a2")
                await auntil(lambda: node.of(A) == (7, 2, ["a1", "a2"]) and node.tail.current)
                assert node.tail.address == ("127.0.0.1", server.port)
                assert node.tail.mended == 0

    run(story())


def test_entries_that_cannot_be_read_are_left_out_and_whoever_reads_is_told(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")

    async def story() -> None:
        async with reading(server) as node:
            server.call("XADD", entries.log_key("t", GROUP), "7-2", "s", A, "q", 2, "t", START, "p", "no payload")
            log.last[GROUP], log.positions[A] = (7, 2), 2
            log.add(A, "a3")
            await auntil(lambda: node.of(A) == (7, 3, ["a3"]))
            reader = node.stage.enter("reader")
            reader.say(Subscribe(id=1, subjects=[A], since={A: (7, 1)}))
            (answer,) = [one for one in reader.taken() if isinstance(one, Subscribed)]
            assert answer.results[0].recovery == "resynchronised"

    run(story())


def test_a_data_set_of_other_groups_is_not_read(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    server.call("HSET", "t:meta", "groups", 32)

    async def story() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), reading(server):
                pass

    run(story())
