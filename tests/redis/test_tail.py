"""The tail on a real Redis whose logs the tests write by hand: order, gaps, what is void, and servers that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from fastpath.core.protocol.messages import Epoch, Message, Subscribe, Subscribed
from fastpath.engine.redis import entries
from fastpath.engine.redis.address import RedisConfig
from fastpath.engine.redis.primary import Primary
from fastpath.engine.redis.tail import Tail
from tests.core.stage import START, Stage
from tests.support.redis import RedisServer
from tests.support.waiting import auntil, run

pytestmark = pytest.mark.redis

A = "/t/a"
GROUP = entries.group_of(A)
SAME = next(f"/t/{n}" for n in range(1000) if entries.group_of(f"/t/{n}") == GROUP)
"""Another subject of the same group."""
OTHER = next(f"/t/{n}" for n in range(1000) if entries.group_of(f"/t/{n}") != GROUP)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


LOSE = """
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])) do
  redis.call('XDEL', KEYS[1], entry[1])
end
return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
"""


class Log:
    """Writes what the script would write."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.last: dict[int, tuple[int, int]] = {}
        self.positions: dict[str, int] = {}
        server.call("FLUSHALL")

    def epoch(self, epoch: int) -> None:
        """What the script does first at a new primary."""
        self.now = epoch
        self.server.call("HSET", "t:meta", "epoch", epoch, "groups", 16, "version", 1)

    def add(self, subject: str, content: str, fields: dict[str, str] | None = None, seq: int | None = None) -> None:
        """A publication."""
        group = entries.group_of(subject)
        before = self.last.get(group, (0, 0))
        place = self.last[group] = (self.now, before[1] + 1 if before[0] == self.now else 1)
        number = self.positions[subject] = self.positions.get(subject, 0) + 1 if seq is None else seq
        data = entries.payload(Message(subject, content, fields))
        pairs: list[Any] = ["s", subject, "q", number, "t", START, "p", data]
        if place[1] == 1:
            pairs += ["prev", f"{before[0]}-{before[1]}"]
        self.server.call("XADD", entries.log_key("t", group), f"{place[0]}-{place[1]}", *pairs)
        if number:
            self.server.call("HSET", entries.positions_key("t", group), subject, f"{self.now}-{number}")
        names = [subject, f"{START} {self.now} {number} t{content}"]
        for name, value in (fields or {}).items():
            names += [f"{subject}\0{name}", f"t{value}"]
        self.server.call("HSET", entries.snapshots_key("t", group), *names)

    def trim(self, group: int, keep: int) -> None:
        """Forget all but the newest entries."""
        self.server.call("XTRIM", entries.log_key("t", group), "MAXLEN", keep)

    def lose(self, group: int, count: int, positions: dict[str, int]) -> None:
        """The newest entries have never been, as after a change of primary."""
        key = entries.log_key("t", group)
        last = self.server.call("EVAL", LOSE, 1, key, count)
        epoch, _, number = last.partition("-")
        self.last[group] = (int(epoch), int(number))
        self.server.call("XSETID", key, f"{epoch}-{number}")
        for subject, seq in positions.items():
            self.positions[subject] = seq
            self.server.call("HSET", entries.positions_key("t", group), subject, f"{self.now}-{seq}")
            self.server.call("HDEL", entries.snapshots_key("t", group), f"{subject}\0void")


class Node:
    """A broker with clients, and the tail that feeds it."""

    def __init__(self, stage: Stage, tail: Tail, seen: list[tuple[int, int, int]]) -> None:
        self.stage = stage
        self.tail = tail
        self.seen = seen

    def of(self, subject: str) -> tuple[int, int, list[str]]:
        """Where the subject stands, and what is cached."""
        topic = self.stage.broker.interest.topics[subject]
        return topic.epoch, topic.seq, [str(one.content) for one in topic.ring or ()]

    def snapshot(self, subject: str) -> tuple[str, dict[str, Any] | None]:
        """Its snapshot."""
        snapshot = self.stage.broker.interest.topics[subject].snapshot
        assert snapshot is not None
        return str(snapshot.newest.content), snapshot.fields


@asynccontextmanager
async def reading(server: RedisServer) -> AsyncIterator[Node]:
    """A node that has joined."""
    config = RedisConfig.parse(server.url)
    primary = Primary(config)
    await primary.start()
    stage = Stage()
    seen: list[tuple[int, int, int]] = []
    tail = Tail(
        stage.broker,
        config,
        primary,
        "t",
        end=stage.end,
        seen=lambda *one: seen.append(one),
        changed=lambda: None,
        returning=lambda: True,
        oldest=lambda: 0,
    )
    tail.start()
    try:
        await asyncio.wait_for(tail.joined.wait(), 5)
        await auntil(lambda: tail.current)
        yield Node(stage, tail, seen)
    finally:
        await tail.close()
        await primary.close()


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
            await auntil(lambda: node.of(A) == (8, 2, []))
            told = [(one.epoch, one.seq) for one in reader.taken() if isinstance(one, Epoch)]
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
            events = [one for one in reader.taken() if isinstance(one, Epoch)]
            told = [(reader.subjects[one.sid], one.epoch, one.seq) for one in events]
            assert (OTHER, 7, 1) in told
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


def test_a_hung_server_is_left_within_two_seconds_and_read_again_when_it_answers(server: RedisServer) -> None:
    log = Log(server)
    log.epoch(7)
    log.add(A, "a1")

    async def story() -> None:
        async with reading(server) as node:
            server.freeze()
            try:
                await auntil(lambda: not node.tail.current, 2.5)
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
                await auntil(lambda: node.of(A) == (7, 2, ["a1", "a2"]) and node.tail.current, 4)
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
