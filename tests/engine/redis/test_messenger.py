"""Messages from node to node through a real Redis: what arrives, and what is told of what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from fastpath.engine.redis.messenger import QUEUE_BYTES_MAX, SMALL_BYTES, RedisMessenger
from tests.support.engine.one_redis import Servers
from tests.support.redis import RedisServer
from tests.support.waiting import auntil

pytestmark = pytest.mark.redis


class Ear:
    """Notes all that is told to a node."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.heard: list[tuple[str, bytes]] = []

    def up(self, nodes: int) -> None:
        self.told.append(("up", nodes))

    def down(self) -> None:
        self.told.append(("down", ""))

    def missing(self, node: str) -> None:
        self.told.append(("missing", node))

    def hear(self, node: str, data: bytes) -> None:
        self.heard.append((node, data))

    def losing(self, name: str) -> Callable[[bool], None]:
        return lambda maybe: self.told.append((name, maybe))


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A server."""
    with RedisServer() as server:
        yield server


@asynccontextmanager
async def node(server: RedisServer, name: str) -> AsyncIterator[tuple[RedisMessenger, Ear]]:
    """A node that hears."""
    ear = Ear()
    messenger = RedisMessenger(Servers(server), name, ear)
    messenger.start()
    try:
        await auntil(lambda: ear.told)
        yield messenger, ear
    finally:
        await messenger.close()


async def test_each_gets_what_is_its_own_or_for_all_in_order(redis: RedisServer) -> None:
    async with node(redis, "a") as (a, at_a), node(redis, "b") as (_, at_b), node(redis, "c") as (_, at_c):
        assert (at_a.told, at_b.told, at_c.told) == ([("up", 1)], [("up", 2)], [("up", 3)])
        for n in range(300):
            a.send("b" if n % 3 else "", b"%d" % n, at_a.losing("lost"))
        await auntil(lambda: len(at_b.heard) == 300 and len(at_c.heard) == 100)
        assert at_b.heard == [("a", b"%d" % n) for n in range(300)]
        assert at_c.heard == [("a", b"%d" % n) for n in range(0, 300, 3)]
        large = b" \x00" * (QUEUE_BYTES_MAX // 2 + 1)
        a.send("c", large)
        await auntil(lambda: at_c.heard[-1] == ("a", large))
        assert (at_a.heard, at_a.told) == ([], [("up", 1)])


async def test_what_nobody_hears_is_told(redis: RedisServer) -> None:
    async with node(redis, "a") as (a, at_a):
        async with node(redis, "b") as (b, _):
            b.send("a", b"the last before it leaves")
        await auntil(lambda: at_a.heard == [("b", b"the last before it leaves")])
        a.send("b", b"x", at_a.losing("x"))
        await auntil(lambda: len(at_a.told) == 3)
        assert at_a.told[1:] == [("x", False), ("missing", "b")]


async def test_what_passes_the_bound_is_lost_and_small_messages_find_room(redis: RedisServer) -> None:
    async with node(redis, "a") as (a, at_a), node(redis, "b") as (_, at_b):
        for n in range(QUEUE_BYTES_MAX // (1 << 20) + 1):
            a.send("b", b"x" * (1 << 20), at_a.losing(f"{n}"))
        assert at_a.told[1:] == [("8", False)]
        a.send("b", b"x" * SMALL_BYTES, at_a.losing("small"))
        await auntil(lambda: len(at_b.heard) == 9)
        assert len(at_a.told) == 2


async def test_the_end_of_the_way_is_told_behind_what_it_lost_and_it_comes_back(redis: RedisServer) -> None:
    async with node(redis, "a") as (a, at_a), node(redis, "b") as (_, at_b):
        redis.freeze()
        a.send("b", b"1", at_a.losing("1"))
        await auntil(lambda: len(at_a.told) > 2)
        assert at_a.told[1:] == [("1", True), ("down", "")]
        a.send("b", b"2", at_a.losing("2"))
        assert at_a.told[3:] == [("2", False)], "at once"
        await auntil(lambda: at_b.told[-1][0] == "down")
        redis.kill()
        redis.start()
        await auntil(lambda: at_a.told[-1][0] == at_b.told[-1][0] == "up")
        a.send("b", b"3", at_a.losing("3"))
        await auntil(lambda: ("a", b"3") in at_b.heard)


async def test_a_user_of_redis_that_may_not_listen_has_no_way_and_the_log_says_so_once(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis.call("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "resetchannels", "+@all")
    caplog.set_level("DEBUG", "fastpath.roster")
    ear = Ear()
    messenger = RedisMessenger(Servers(redis, f"redis://narrow:secret@127.0.0.1:{redis.port}"), "a", ear)
    messenger.start()
    messenger.send("b", b"x", ear.losing("x"))
    await auntil(lambda: "no way to other nodes" in caplog.text)
    assert [record.levelname for record in caplog.records if "test:nodes" in record.getMessage()] == ["WARNING"]
    redis.call("ACL", "SETUSER", "narrow", "allchannels")
    await auntil(lambda: ear.told[-1] == ("up", 1))
    assert ear.told[0] == ("x", False)
    await messenger.close()
