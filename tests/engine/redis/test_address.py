"""Addresses of Redis as text, and the servers behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fastpath.engine.redis.address import Names, RedisAway, RedisConfig
from fastpath.engine.redis.checks import RedisRefused, server_faults, warnings
from fastpath.engine.redis.primary import Primary, SentinelView
from tests.support.certificates import Certificate
from tests.support.engine.redis_load import node
from tests.support.redis import RedisServer, Topology, free_port
from tests.support.waiting import auntil

READ = {
    "redis://h": RedisConfig((("h", 6379),)),
    " redis://h:1/0 ": RedisConfig((("h", 1),)),
    "redis://:p%40@[::1]:2": RedisConfig((("::1", 2),), password="p@"),
    "redis://u:p@h": RedisConfig((("h", 6379),), user="u", password="p"),
    "rediss://h?ca=/ca&cert=/c&key=/k": RedisConfig((("h", 6379),), tls=True, ca="/ca", cert="/c", key="/k"),
    "redis+sentinel://a,b:2,c/fp": RedisConfig((("a", 26379), ("b", 2), ("c", 26379)), "fp"),
    "rediss+sentinel://u:p@a/fp?sentinel_user=s&sentinel_password=q": RedisConfig(
        (("a", 26379),), "fp", True, "u", "p", "s", "q"
    ),
}

WRONG = {
    "memory": r"the scheme is one of redis, rediss, redis\+sentinel, rediss\+sentinel",
    "http://h": "the scheme is one of",
    "redis://": "no host",
    "redis://h:x": "'h:x'",
    "redis://h:70000": "'h:70000'",
    "redis://[::1": "Invalid IPv6",
    "redis://a,b": "takes one HOST:PORT",
    "redis://h/3": "no database but 0",
    "redis+sentinel://a,,b/fp": "'' is no HOST:PORT",
    "redis+sentinel://a": "after the hosts comes /NAME",
    "redis://h?ca=/x": "for rediss://",
    "rediss://h?cert=/x": "cert and key go together",
    "redis://h?sentinel_user=x": r"for redis\+sentinel://",
    "redis://h?db=3": "unknown option db",
}


@pytest.mark.parametrize(("url", "config"), READ.items(), ids=READ)
def test_is_read(url: str, config: RedisConfig) -> None:
    assert RedisConfig.parse(url) == config


@pytest.mark.parametrize(("url", "why"), WRONG.items(), ids=WRONG)
def test_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RedisConfig.parse(url)


@pytest.mark.parametrize("url", ["redis://u:secret@h:70000", "redis+sentinel://u:secret@h?sentinel_password=secret"])
def test_no_password_is_told(url: str) -> None:
    with pytest.raises(ValueError, match="h") as error:
        RedisConfig.parse(url)
    assert "secret" not in str(error.value)
    assert "secret" not in repr(RedisConfig((("h", 1),), password="secret", sentinel_password="secret"))


GOOD = {"maxmemory-policy": "noeviction", "appendonly": "yes"}
VIEW = SentinelView(("h", 1), True, {}, 3.0, 2, 2)


@pytest.mark.parametrize(
    ("version", "found", "guaranteed", "by_sentinel", "fault"),
    [
        ("7.0.15", GOOD, True, True, ""),
        ("6.2.0", {}, True, True, ""),
        ("6.0.16", GOOD, False, False, "too old"),
        ("7.0.15", GOOD | {"maxmemory-policy": "allkeys-lru"}, False, False, "set maxmemory-policy noeviction"),
        ("7.0.15", GOOD | {"appendonly": "no"}, True, True, "set appendonly yes"),
        ("7.0.15", GOOD | {"appendonly": "no"}, False, True, ""),
        ("7.0.15", GOOD | {"appendonly": "no"}, True, False, ""),
    ],
)
def test_what_must_not_be(version: str, found: dict[str, str], guaranteed: bool, by_sentinel: bool, fault: str) -> None:
    faults = server_faults("h:1", version, found, guaranteed, by_sentinel)
    assert [fault in one for one in faults] == ([True] if fault else [])


@pytest.mark.parametrize(
    ("found", "replicas", "views", "sentinels", "warning"),
    [
        (GOOD, 2, [VIEW], 3, ""),
        ({}, 2, [VIEW], 3, "does not tell its configuration"),
        (GOOD, 1, [VIEW], 3, "has 1 replicas"),
        (GOOD, 2, [SentinelView(("h", 1), True, {}, 3.0, 2, 1)], 2, "2 Sentinels are named"),
        (GOOD, 2, [VIEW], 5, "the Sentinels are 3, and 5 are named"),
        (GOOD, 2, [SentinelView(("h", 1), True, {}, 3.0, 1, 2)], 3, "quorum is 1 of 3"),
        (GOOD, 2, [SentinelView(("h", 1), True, {}, 1.0, 2, 2)], 3, "down-after-milliseconds is 1000"),
        (GOOD, 1, [], 0, "without Sentinels"),
        (GOOD, 0, [], 0, "has no replica"),
        (GOOD | {"appendonly": "no"}, 1, [], 0, "set appendonly yes"),
    ],
)
def test_what_should_not_be(
    found: dict[str, str], replicas: int, views: list[SentinelView], sentinels: int, warning: str
) -> None:
    lines = warnings("h:1", found, True, replicas, views, sentinels)
    assert any(warning in line for line in lines) if warning else not lines
    if found and sentinels:
        assert not warnings("h:1", found, False, replicas, views, sentinels)


@pytest.mark.redis
@pytest.mark.parametrize("option", ["maxmemory-policy", "appendonly"])
async def test_a_server_that_is_set_up_wrongly_is_refused(option: str) -> None:
    value = {"maxmemory-policy": "volatile-lru", "appendonly": "no"}[option]
    with Topology(redis=1, sentinels=1, options={option: value}) as topology:
        with pytest.raises(RedisRefused, match=option):
            async with node(topology.url):
                pass
        if option == "appendonly":
            async with node(topology.url, guaranteed=False):
                pass


@pytest.fixture(scope="module")
def topology(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    certificate = Certificate(tmp_path_factory.mktemp("tls"))
    with Topology(password="secret", certificate=certificate, quick=True) as running:
        yield running


@pytest.mark.redis
async def test_the_sentinels_name_primary_and_replicas_over_tls_with_logins(topology: Topology) -> None:
    primary = Primary(RedisConfig.parse(topology.url_for("node-1")))
    await primary.start()
    try:
        assert await primary.primary() == topology.primary.address
        replicas = {server.address for server in topology.replicas}
        assert await primary.replicas() == replicas
        readable = await primary.readable()
        assert {readable, await primary.readable(avoid=readable)} == replicas
    finally:
        await primary.close()


@pytest.mark.redis
async def test_a_login_that_the_sentinels_refuse_is_told(topology: Topology) -> None:
    primary = Primary(RedisConfig.parse(topology.url.replace("sentinel_password=secret", "sentinel_password=guess")))
    try:
        await primary.start()

        async def refused() -> bool:
            """Asked again, as one that was slow to answer says nothing of the login."""
            with pytest.raises(RedisAway, match="0 of 3 Sentinels answer") as told:
                await primary.primary()
            return "invalid username-password" in str(told.value)

        await auntil(refused)
    finally:
        await primary.close()


@pytest.mark.redis
async def test_a_change_is_told_and_one_dead_sentinel_does_not_matter(topology: Topology) -> None:
    primary = Primary(RedisConfig.parse(topology.url))
    told: list[object] = []
    primary.subscribe(lambda: told.append(primary.named()))
    old = topology.primary
    topology.sentinels[2].freeze()
    try:
        await primary.start()
        topology.failover()
        await auntil(lambda: told)
        assert told == [(await primary.primary())] != [old.address]
    finally:
        topology.sentinels[2].thaw()
        await primary.close()


@pytest.mark.redis
async def test_without_a_majority_there_is_no_primary() -> None:
    with Topology(redis=1, sentinels=1) as topology:
        url = f"redis+sentinel://127.0.0.1:{topology.sentinels[0].port},127.0.0.1:{free_port()}/fp"
        primary = Primary(RedisConfig.parse(url))
        try:
            await primary.start()
            with pytest.raises(RedisAway, match="1 of 2 Sentinels answer"):
                await primary.primary()
        finally:
            await primary.close()


@pytest.mark.redis
async def test_one_address_is_the_primary_and_names_its_replicas() -> None:
    with RedisServer() as server, RedisServer(replica_of=server) as replica:
        primary = Primary(RedisConfig.parse(server.url))
        try:
            await primary.start()
            assert await primary.primary() == server.address
            assert await auntil(primary.replicas) == {replica.address}
            assert await primary.readable() == replica.address
            assert await primary.readable(avoid=replica.address) == server.address
            replica.kill()
            await auntil(lambda: _has_no_replica(primary))
            assert await primary.readable() == server.address
        finally:
            await primary.close()


async def _has_no_replica(primary: Primary) -> bool:
    return not await primary.replicas()


class Resolver:
    """Resolves names as it is told; a name that it is not told does not resolve, and one that hangs never answers."""

    def __init__(self, **names: list[str]) -> None:
        self.names = names
        self.asked: list[str] = []
        self.hangs = asyncio.Event()

    async def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        if name == "hangs":
            await self.hangs.wait()
        await asyncio.sleep(0)
        if name not in self.names:
            raise OSError("Name or service not known")
        return self.names[name]


KNOWN = {
    "a": ["10.0.0.1"],
    "a.example.com": ["10.0.0.1"],
    "b": ["10.0.0.2"],
    "both": ["fd00::1", "10.0.0.1"],  # of one server
    "six": ["fd00::0:9"],
    "all": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],  # of a service
    "new": ["10.0.0.8", "10.0.0.9"],
}
SERVERS = [("10.0.0.1", 1), ("b", 1)]

SAME = [
    ("10.0.0.1", "a"),
    ("10.0.0.1", "A.Example.COM."),
    ("a", "a.example.com"),
    ("10.0.0.1", "::ffff:10.0.0.1"),
    ("10.0.0.1", "both"),
    ("a", "both"),
    ("b", "10.0.0.2"),
    ("six", "FD00:0:0:0:0:0:0:9"),
    ("[fd00::9]", "six"),
    ("new", "NEW"),
    ("new", "10.0.0.8"),
    ("unknown", "Unknown."),
    ("all", "ALL"),
]
OTHERS = [("a", "b"), ("10.0.0.1", "b"), ("all", "a"), ("all", "b"), ("unknown", "a"), ("six", "both"), ("", "a")]


@pytest.mark.parametrize(
    ("one", "other", "same"), [*((*pair, True) for pair in SAME), *((*pair, False) for pair in OTHERS)]
)
async def test_servers_are_compared_by_what_their_names_resolve_to(one: str, other: str, same: bool) -> None:
    names = Names(Resolver(**KNOWN))
    await names.learn([*SERVERS, (one, 1), (other, 1)])
    assert (names.one((one, 1)) == names.one((other, 1))) is same
    assert names.one((one, 1)) != names.one((one, 2)), "another port is another server"


async def test_a_server_is_reached_by_its_name_as_long_as_that_is_its() -> None:
    """A certificate is for a name; but what moved on with the name is another server."""
    resolver = Resolver(a=["10.0.0.1"])
    names = Names(resolver)
    await names.learn([("a", 1), ("10.0.0.1", 1)])
    one = names.note(("10.0.0.1", 1))
    assert names.note(("a", 1)) == names.note(("10.0.0.1", 1)) == one
    assert names.written(one) == ("a", 1)
    resolver.names["a"] = ["10.0.0.7"]

    async def moved() -> bool:
        await names.learn([("a", 1)])
        return names.one(("a", 1)) == ("10.0.0.7", 1)

    await auntil(moved)
    assert names.written(one) == ("10.0.0.1", 1)


async def test_a_name_that_hangs_is_waited_for_once_and_holds_up_no_other() -> None:
    resolver = Resolver(a=["10.0.0.1"])
    names = Names(resolver)
    await names.learn([("hangs", 1), ("a", 1)])
    assert names.one(("hangs", 1)) == ("hangs", 1)
    assert names.one(("a", 1)) == ("10.0.0.1", 1)
    later = asyncio.create_task(names.learn([("hangs", 1), ("a", 1)]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert later.done()
    assert resolver.asked.count("hangs") == 1
    resolver.names["hangs"] = ["10.0.0.3"]
    resolver.hangs.set()
    await auntil(lambda: names.one(("hangs", 1)) == ("10.0.0.3", 1))
    names.close()


async def test_a_name_that_resolves_no_more_is_remembered_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """That of a server which is down may be taken out of DNS; this is told once."""
    resolver = Resolver(a=["10.0.0.1"])
    names = Names(resolver)
    await names.learn([("a", 1)])
    del resolver.names["a"]

    async def asked_again() -> bool:
        await names.learn([("a", 1)])
        return resolver.asked.count("a") > 2

    await auntil(asked_again)
    assert names.one(("a", 1)) == ("10.0.0.1", 1)
    assert caplog.text.count("does not resolve") == 1
