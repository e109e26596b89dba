"""Nothing that was acknowledged is lost or doubled, whatever happens to the servers: one primary, two replicas, three
Sentinels with the timing of operation, two nodes that publish without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.support.engine.redis_load import Load, Node, node
from tests.support.redis import RedisServer, Server, Topology
from tests.support.waiting import auntil

pytestmark = [pytest.mark.redis, pytest.mark.slow]

PAUSE_SECONDS_MAX = 20.0
"""Until publications are acknowledged again, at the latest. One failover takes about 5, and 12 more when the Sentinels
do not agree at once on who of them does it."""


@pytest.fixture
def topology() -> Iterator[Topology]:
    with Topology(password="secret") as running:
        yield running


@asynccontextmanager
async def under_load(
    topology: Topology, pause_max: float = PAUSE_SECONDS_MAX
) -> AsyncIterator[tuple[Load, Node, Node]]:
    """Two nodes with publishers; afterwards everything has to be there."""
    async with node(topology.url_for("node-1")) as one, node(topology.url_for("node-2")) as two:
        load = Load([one, two])
        await auntil(lambda: len(load.acknowledged) > 1000)
        yield load, one, two
        before = len(load.acknowledged)
        await auntil(lambda: len(load.acknowledged) > before + 2000, 30)
        await load.stop()
    await in_thread(topology.wait_settled)
    await in_thread(load.check, topology.primary)
    print(f"{len(load.acknowledged)} acknowledged, longest pause {load.longest_pause():.2f} s")  # noqa: T201
    assert load.longest_pause() < pause_max


async def in_thread(call: Callable[..., object], *arguments: object) -> object:
    return await asyncio.to_thread(call, *arguments)


async def test_the_primary_is_killed(topology: Topology) -> None:
    async with under_load(topology):
        old = topology.primary
        old.kill()
        await in_thread(topology.wait_new_primary, old)
        old.start()


async def test_the_primary_freezes_and_thaws(topology: Topology) -> None:
    async with under_load(topology):
        old = topology.primary
        old.freeze()
        await in_thread(topology.wait_new_primary, old)
        await asyncio.sleep(0.5)
        old.thaw()


async def test_a_planned_failover(topology: Topology) -> None:
    async with under_load(topology):
        old = topology.primary
        await in_thread(topology.failover)
        await in_thread(topology.wait_new_primary, old)


async def test_the_primary_is_restarted_at_once(topology: Topology) -> None:
    async with under_load(topology):
        await in_thread(topology.primary.restart)


async def test_all_servers_are_restarted(topology: Topology) -> None:
    async with under_load(topology):
        for server in topology.servers:
            server.kill()
        for server in topology.servers:
            server.launch()


async def test_a_replica_is_killed_and_one_freezes(topology: Topology) -> None:
    async with under_load(topology) as (load, _, _):
        dead, frozen = topology.replicas
        dead.kill()
        before = len(load.acknowledged)
        await auntil(lambda: len(load.acknowledged) > before + 1000, 20)
        dead.start()
        await in_thread(topology.wait_settled)
        frozen.freeze()
        before = len(load.acknowledged)
        await auntil(lambda: len(load.acknowledged) > before + 1000, 20)
        frozen.thaw()


async def test_a_replica_is_killed_where_the_others_know_the_primary_by_a_name(topology: Topology) -> None:
    """Or by another spelling of its address, which has to be resolved as well and needs no server of names."""
    for sentinel in topology.sentinels:
        sentinel.call("SENTINEL", "CONFIG", "SET", "resolve-hostnames", "yes")
    for replica in topology.replicas:
        replica.call("REPLICAOF", "127.1", str(topology.primary.port))
    await in_thread(topology.wait_settled)
    async with under_load(topology) as (load, _, _):
        dead, other = topology.replicas
        dead.kill()
        before = len(load.acknowledged)
        await auntil(lambda: len(load.acknowledged) > before + 1000, 20)
        assert str(other.call("INFO", "replication")["master_host"]) == "127.1"
        dead.start()


async def test_the_primary_is_cut_off_with_a_node(topology: Topology) -> None:
    async with under_load(topology) as (load, cut_off, _):
        side = [topology.primary, topology.sentinels[0]]
        await in_thread(topology.part, side, "node-1")
        await in_thread(new_primary_outside, topology, side)
        before = len(load.acknowledged)
        await auntil(lambda: len(load.acknowledged) > before + 500, 20)
        assert cut_off.states[-1][0] is False
        await in_thread(topology.heal)
        await auntil(lambda: cut_off.states[-1][0], 40)


async def test_the_primary_and_a_replica_are_cut_off_with_a_node(topology: Topology) -> None:
    """The side without the Sentinels has the old primary, a replica that acknowledges, and publishers; the other one a
    new primary without a replica. Neither may acknowledge."""
    async with under_load(topology, 60) as (load, *nodes):
        side = [topology.primary, topology.replicas[0]]
        await in_thread(topology.part, side, "node-1")
        await in_thread(new_primary_outside, topology, side)
        await auntil(lambda: not any(one.states[-1][0] for one in nodes))
        before = len(load.acknowledged)
        await asyncio.sleep(1)
        assert len(load.acknowledged) == before
        await in_thread(topology.heal)
        await auntil(lambda: all(one.states[-1][0] for one in nodes), 40)


def new_primary_outside(topology: Topology, side: list[Server]) -> None:
    old = side[0]
    assert isinstance(old, RedisServer)
    new = topology.wait_new_primary(old)
    assert new not in side
