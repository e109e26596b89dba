"""Logs on a real Redis that the test writes by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fastpath.core.protocol.messages import Message
from fastpath.engine.redis import entries
from fastpath.engine.redis.address import RedisConfig
from fastpath.engine.redis.primary import Primary
from fastpath.engine.redis.tail import Tail
from tests.support.core.stage import START, Stage
from tests.support.redis import RedisServer
from tests.support.waiting import auntil

A = "/t/a"

REMOVED = "removed"
"""The content that stands for a removal."""


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
        message = Message(subject, content, fields)
        if content == REMOVED:
            message = Message(subject, "", replace=True, removed=True)
        data = entries.payload(message)
        pairs: list[Any] = ["s", subject, "q", number, "t", START, "p", data]
        if place[1] == 1:
            pairs += ["prev", f"{before[0]}-{before[1]}"]
        self.server.call("XADD", entries.log_key("t", group), f"{place[0]}-{place[1]}", *pairs)
        if number:
            self.server.call("HSET", entries.positions_key("t", group), subject, f"{self.now}-{number}")
        names = [subject, f"{START} {self.now} {number} {'x' if message.removed else f't{content}'}"]
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
        return REMOVED if snapshot.removed else str(snapshot.newest.content), snapshot.fields


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
