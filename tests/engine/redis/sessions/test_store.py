"""Sessions of MQTT clients in a real Redis: one claim at a time has one, and what it says the next one reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fastpath.engine.base import Claimed, SessionChange
from fastpath.engine.redis.sessions.store import BATCH, RedisSessions
from tests.support.engine.one_redis import Servers
from tests.support.redis import RedisServer
from tests.support.waiting import auntil

pytestmark = pytest.mark.redis

KEY = "test:mqtt:3:ann:phone"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """A server for all tests."""
    with RedisServer() as server:
        yield server


@pytest.fixture(autouse=True)
def empty(redis: RedisServer) -> None:
    """Nothing is in it."""
    redis.call("FLUSHALL")


class Node:
    """A node that has sessions."""

    def __init__(self, server: RedisServer, *, alone: bool = False) -> None:
        self.sessions = RedisSessions(Servers(server), lambda: alone, lambda: None)

    async def claim(self, claim: str, *, fresh: bool = False) -> Claimed | None:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Claimed | None] = loop.create_future()
        self.sessions.claim("ann", "phone", claim, fresh=fresh, seconds=100, done=found.set_result)
        return await asyncio.wait_for(found, 60)

    async def say(self, *changes: SessionChange) -> list[int | None]:
        found: list[list[int | None]] = []
        self.sessions.write(list(changes), found.append)
        return await auntil(lambda: found[0] if found else None) or []


def change(claim: str, action: str, data: bytes = b"", *, at_rest: bool = False, seconds: int = 100) -> SessionChange:
    return SessionChange("ann", "phone", claim, action, data, seconds, at_rest)


@asynccontextmanager
async def node(server: RedisServer, **more: Any) -> AsyncIterator[Node]:
    """A node that asks."""
    found = Node(server, **more)
    found.sessions.start()
    try:
        yield found
    finally:
        await found.sessions.close()


async def test_the_next_one_reads_what_the_one_before_has_said(redis: RedisServer) -> None:
    async with node(redis) as one, node(redis) as other:
        assert await one.claim("a 1") == Claimed("", False, [])
        assert await one.say(change("a 1", "whole", b"\xff0"), change("a 1", "change", b"1")) == [1, 1]
        assert await other.claim("b 1") == Claimed("a 1", False, [b"\xff0", b"1"])
        assert await other.say(change("b 1", "whole", b"2"), change("b 1", "change", b"3", at_rest=True)) == [1, 1]
        assert await one.claim("a 2") == Claimed("b 1", True, [b"2", b"3"])
        assert await other.claim("b 2") == Claimed("a 2", False, [b"2", b"3"])


async def test_nothing_is_taken_by_an_old_claim(redis: RedisServer) -> None:
    async with node(redis) as one, node(redis) as other:
        await one.claim("a 1")
        await one.say(change("a 1", "whole", b"0"))
        await other.claim("b 1")
        for action in ("whole", "change", "empty", "over"):
            assert await one.say(change("a 1", action, b"old")) == [0]
        assert await one.claim("a 2") == Claimed("b 1", False, [b"0"])


async def test_who_has_said_all_may_say_more(redis: RedisServer) -> None:
    async with node(redis) as one:
        await one.claim("a 1")
        await one.say(change("a 1", "whole", b"0", at_rest=True))
        assert await one.say(change("a 1", "change", b"1", at_rest=True), change("a 1", "over")) == [1, 1]
        assert not redis.call("EXISTS", KEY)


async def test_of_who_begins_anew_nothing_is_left_but_the_claim(redis: RedisServer) -> None:
    async with node(redis) as one, node(redis) as other:
        await one.claim("a 1")
        await one.say(change("a 1", "whole", b"0", at_rest=True))
        assert await other.claim("b 1", fresh=True) == Claimed("a 1", True, [])
        assert await other.say(change("b 1", "change", b"1")) == [2]
        assert await other.say(change("b 1", "whole", b"2"), change("b 1", "empty")) == [1, 1]
        assert await one.claim("a 2") == Claimed("b 1", False, [])


async def test_what_redis_has_lost_is_said_anew(redis: RedisServer) -> None:
    async with node(redis) as one:
        await one.claim("a 1")
        await one.say(change("a 1", "whole", b"0"))
        redis.call("FLUSHALL")
        redis.call("SCRIPT", "FLUSH")
        assert await one.say(change("a 1", "change", b"1"), change("a 1", "whole", b"2")) == [2, 1]


async def test_a_session_lasts_as_long_as_it_says(redis: RedisServer) -> None:
    async with node(redis) as one:
        await one.claim("a 1")
        assert 0 < int(redis.call("TTL", KEY)) <= 100
        await one.say(change("a 1", "whole", b"0", seconds=1000))
        assert 100 < int(redis.call("TTL", KEY)) <= 1000


async def test_many_are_written_in_their_order(redis: RedisServer) -> None:
    async with node(redis) as one:
        await one.claim("a 1")
        many = [change("a 1", "change", b"%d" % number) for number in range(3 * BATCH)]
        assert await one.say(change("a 1", "whole", b"0"), *many) == [1] * (len(many) + 1)
        found = await one.claim("a 2")
        assert found is not None
        assert found.rows == [b"0", *(one.data for one in many)]


async def test_nobody_knows_while_redis_is_away() -> None:
    with RedisServer() as server:
        async with node(server) as one:
            assert await one.claim("a 1") is not None
            server.kill()
            assert await one.claim("a 2") is None
            assert await one.say(change("a 2", "whole", b"0"), change("a 2", "over")) == [None, None]
    async with node(server, alone=True) as one:
        assert await one.claim("a 3") == Claimed("", False, [])
