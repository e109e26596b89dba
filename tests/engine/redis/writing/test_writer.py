"""The writer on real servers: outcomes in order, stored once whatever breaks, and no word of what is not safe."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.core.broker.admission import Outcome
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.redis.address import RedisAway
from fastpath.engine.redis.checks import RedisRefused
from fastpath.engine.redis.entries import group_of
from fastpath.engine.redis.writing import publication_queue
from fastpath.engine.redis.writing import writer as redis_writer
from tests.support.engine.redis_load import Load, Node, entries, node
from tests.support.promises import kept
from tests.support.proxy import Proxy
from tests.support.redis import RedisServer, Topology, free_port
from tests.support.redis_servers import SYNCED
from tests.support.waiting import PATIENCE_SECONDS, auntil

pytestmark = pytest.mark.redis


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer(options=SYNCED) as running:
        yield running


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications wait half a second for Redis instead of five."""
    monkeypatch.setattr(redis_writer, "UNAVAILABLE_SECONDS", 0.5)


def message(content: str = "x", number: int = 0, *, subject: str = "/w/a") -> Message:
    """One of the publisher ``p`` when it has a number."""
    made = Message(subject, content, publisher="p" if number else None, publication=number)
    made.weigh()
    return made


def contents(server: RedisServer) -> list[str]:
    return [str(found.content) for log in entries(server) for _, found, _ in log]


async def test_outcomes_come_in_the_order_of_the_calls(server: RedisServer) -> None:
    async with node(server.url) as one:
        told: list[tuple[str, list[Outcome]]] = []
        one.writer.submit([message("1"), message("2")], lambda outcomes: told.append(("a", outcomes)))
        one.writer.submit([], lambda outcomes: told.append(("b", outcomes)))
        one.writer.submit([message("3")], None)
        one.writer.submit([message("4")], lambda outcomes: told.append(("c", outcomes)))
        one.writer.submit([], lambda outcomes: told.append(("d", outcomes)))
        assert not told
        await auntil(lambda: len(told) == 4)
        assert told == [("a", [1, 2]), ("b", []), ("c", [4]), ("d", [])]
        assert one.writer.batches == 1, "what comes in one tick is one batch"
    assert contents(server) == ["1", "2", "3", "4"]


async def test_much_at_once_is_cut_and_keeps_its_order(server: RedisServer) -> None:
    async with node(server.url) as one:
        many = [message(str(n)) for n in range(2500)]
        large = [message("y" * 1_000_000 + str(n)) for n in range(9)]
        outcomes = await asyncio.gather(one.publish(many), one.publish(large), one.publish([message("last")]))
        assert outcomes == [list(range(1, 2501)), list(range(2501, 2510)), [2510]]
        assert one.writer.batches == 4, "of 1000 messages or 4 MiB"
        assert [m.seq for m in many] == outcomes[0]
    assert contents(server)[-1] == "last"


async def test_an_outcome_waits_until_the_node_has_read_it(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(server.url) as one:
        monkeypatch.setattr(one.writer, "_stored", None)
        told: list[Outcome] = []
        one.writer.submit([message("1")], told.extend)
        one.writer.submit([message("2")], told.extend)
        await auntil(lambda: one.writer.batches == 1)
        group = group_of("/w/a")
        one.writer.seen(group, one.writer._epoch, 1)
        one.writer.seen((group + 1) % 16, one.writer._epoch, 9)
        assert not told
        one.writer.seen(group, one.writer._epoch, 2)
        assert told == [1, 2]
        one.writer.submit([message("3")], told.extend)
        await auntil(lambda: len(told) == 3, publication_queue.SEEN_SECONDS + 10)


async def test_what_was_given_up_is_not_stored_when_the_network_comes_back(server: RedisServer, brief: None) -> None:
    """Its publisher, who does not number, has gone on through another node since then."""
    with Proxy(f"127.0.0.1:{server.port}") as network:
        async with node(f"redis://{network.address}") as one, node(server.url) as other:
            assert await one.publish([message("1")]) == [1]
            network.stall()
            assert [outcome[0] for outcome in await one.publish([message("2")])] == ["unavailable"]
            assert await other.publish([message("3")]) == [2]
            network.flow()
            await auntil(lambda: one.writer._reason is None)
    kept(contents(server) == ["1", "3"], f"order of a publisher: {contents(server)}")


async def test_a_clock_of_redis_that_was_set_costs_one_more_attempt(server: RedisServer) -> None:
    async with node(server.url) as one:
        assert await one.publish([message("1")]) == [1]
        for ahead in (-3_600_000, 3_600_000):
            assert one.writer._deadline._ahead is not None
            one.writer._deadline._ahead += ahead
            assert await one.publish([message("2")]) == [2 if ahead < 0 else 3]
        assert one.writer.retries == 1
    assert contents(server) == ["1", "2", "2"]


async def test_a_position_of_another_epoch_is_told_in_full(server: RedisServer) -> None:
    async with node(server.url) as one:
        assert await one.publish([message("1", 1)]) == [1]
        before = one.epoch
        server.restart()
        assert await one.publish([message("1", 1), message("2", 2)]) == [(before, 1), 2]
        assert one.epoch == before + 1
        one.epoch += 1  # the node reads a newer epoch already
        assert await one.publish([message("2", 2)]) == [(before + 1, 2)]


async def test_standard_quality_has_no_number(server: RedisServer) -> None:
    async with node(server.url) as one:
        standard = Message("/w/a", "x", qos=STANDARD)
        assert await one.publish([standard, message("y")]) == [0, 1]
        assert (standard.epoch, standard.seq) == (0, 0)
        assert standard.time


async def test_a_restart_under_load_loses_and_doubles_nothing(server: RedisServer) -> None:
    async with node(server.url) as one:
        load = Load([one], pause=0.001)
        for _ in range(3):
            before = len(load.acknowledged)
            await auntil(lambda before=before: len(load.acknowledged) > before + 500)  # type: ignore[misc]
            await asyncio.to_thread(server.restart)
        await load.stop()
        assert one.writer.connected
        load.check(server)


async def test_what_redis_has_lost_of_the_last_seconds_is_stored_again(server: RedisServer, tmp_path: Path) -> None:
    """As after a crash while the file could not be written; before a replica is promoted."""
    async with node(server.url) as one, node(server.url) as other:
        await one.publish([message("old", 1)])
        shutil.copytree(server.folder, tmp_path / "before")
        lost = [message("1"), message("2", 2), message("3", subject="/w/b")]
        await one.publish(lost)
        await other.publish([message("other", subject="/w/c")])
        server.kill()
        shutil.rmtree(server.folder)
        shutil.copytree(tmp_path / "before", server.folder)
        server.start()
        await asyncio.gather(one.publish([message("4", 3)]), other.publish([message("5", subject="/w/c")]))
        assert await one.publish([message("2", 2)]) == [3]
    by_subject = [[m.content for _, m, _ in entries(server)[group_of(subject)]] for subject in ("/w/a", "/w/b", "/w/c")]
    assert by_subject == [["old", "1", "2", "4"], ["3"], ["other", "5"]]


async def test_nothing_is_stored_again_when_nothing_was_lost(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with node(server.url) as one:
        await one.publish([message("1"), message("2", subject="/w/b")])
        server.restart()
        await one.publish([message("3")])
        assert "stored again" not in caplog.text
    assert sorted(contents(server)) == ["1", "2", "3"]


async def test_connections_that_break_lose_and_double_nothing(server: RedisServer) -> None:
    async with node(server.url) as one:
        load = Load([one], pause=0.001)
        for _ in range(10):
            before = len(load.acknowledged)
            await auntil(lambda before=before: len(load.acknowledged) > before + 50)  # type: ignore[misc]
            server.call("CLIENT", "KILL", "TYPE", "normal")
        await load.stop()
        assert sum(ok for ok, _ in one.states) > 2
        load.check(server)


async def test_without_redis_publications_are_unavailable(server: RedisServer, brief: None) -> None:
    async with node(server.url) as one:
        server.freeze()
        first, second = await asyncio.gather(one.publish([message("1", 1)]), one.publish([message("2", 2)]))
        assert [outcome[0] for outcome in (*first, *second)] == ["unavailable"] * 2  # type: ignore[index]
        assert one.states[-1][0] is False
        server.thaw()
        await auntil(lambda: one.states[-1] == (True, ""))
        assert (await one.publish([message("3", 3)]))[0][0] == "unavailable", "what comes first has to come first"  # type: ignore[index]
        assert await one.publish([message("other")]) != [None]
        again = await one.publish([message("1", 1), message("2", 2), message("3", 3)])
        assert [outcome if isinstance(outcome, int) else outcome[1] for outcome in again] == sorted(
            outcome if isinstance(outcome, int) else outcome[1] for outcome in again
        )
    assert [content for content in contents(server) if content != "other"] == ["1", "2", "3"]


async def test_what_waited_is_stored_when_redis_is_back(server: RedisServer) -> None:
    async with node(server.url) as one:
        server.kill()
        waiting = [asyncio.create_task(one.publish([message(str(n))])) for n in range(5)]
        await auntil(lambda: one.states and not one.states[-1][0])
        server.start()
        assert await asyncio.gather(*waiting) == [[n] for n in range(1, 6)]
        assert one.states[-1] == (True, "")


async def test_too_much_that_waits_is_refused_at_once(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication_queue, "QUEUE_BYTES_MAX", 1000)
    async with node(server.url) as one:
        taken = asyncio.create_task(one.publish([message("x" * 2000, 1)]))
        late = asyncio.create_task(one.publish([message("y", 2)]))
        assert [outcome[0] for outcome in await late] == ["unavailable"]  # type: ignore[index]
        assert await taken == [1]
        assert (await one.publish([message("z", 3)]))[0][0] == "unavailable"  # type: ignore[index]
        assert await one.publish([message("y", 2), message("z", 3)]) == [2, 3]


async def test_a_full_redis_refuses_and_recovers(server: RedisServer) -> None:
    async with node(server.url) as one:
        await one.publish([message("1")])
        server.call("CONFIG", "SET", "maxmemory", "1mb")
        outcomes = await one.publish([message("2"), message("3")])
        assert [outcome[0] for outcome in outcomes] == ["failed"] * 2  # type: ignore[index]
        assert "Redis is out of memory" in outcomes[0][1]  # type: ignore[index, operator]
        assert one.states[-1][0] is False
        server.call("CONFIG", "SET", "maxmemory", "100mb")
        await auntil(lambda: one.states[-1][0])
        assert await one.publish([message("4")]) == [2]
    assert contents(server) == ["1", "4"]


async def test_what_is_behind_one_that_may_be_stored_is_not_refused_for_good(server: RedisServer) -> None:
    """Nor is it stored before it: both come again, in their order."""
    with RedisServer(replica_of=server) as replica:
        await auntil(lambda: server.call("INFO", "replication").get("slave0", {}).get("state") == "online")
        async with node(server.url) as one:
            replica.freeze()
            first = asyncio.create_task(one.publish([message("1", 1)]))
            await auntil(lambda: server.call("KEYS", "*:l:*"))  # it is stored, on this server alone
            await auntil(lambda: one.states and "replicas" in one.states[-1][1])
            second = asyncio.create_task(one.publish([message("2", 2)]))
            server.call("CONFIG", "SET", "maxmemory", "1mb")
            assert [outcome[0] for outcome in (*await first, *await second)] == ["unavailable"] * 2  # type: ignore[index]
            server.call("CONFIG", "SET", "maxmemory", "100mb")
            replica.thaw()
            assert (await one.publish([message("3", 3)]))[0][0] == "unavailable"  # type: ignore[index]
            assert await one.publish([message(str(n), n) for n in (1, 2, 3)]) == [1, 2, 3]


async def test_what_is_withdrawn_is_the_callers(server: RedisServer) -> None:
    async with node(server.url, guaranteed=False) as one:
        told: list[Outcome] = []
        server.freeze()
        for content in "123":
            one.writer.submit([message(content)], told.extend)
            await asyncio.sleep(0)
        rest = one.writer.withdraw()
        assert [m.content for messages, _ in rest for m in messages] == ["1", "2", "3"]
        for messages, done in rest:
            assert done is not None
            done([7] * len(messages))
        assert told == [7, 7, 7]
        server.thaw()
        assert len(await one.publish([message("4")])) == 1
        assert told == [7, 7, 7]


async def test_what_is_not_stored_at_the_end_is_told(server: RedisServer) -> None:
    async with node(server.url) as one:
        server.freeze()
        waiting = asyncio.create_task(one.publish([message("1")]))
        await asyncio.sleep(0)
        await one.writer.close()
        assert (await waiting)[0][0] == "unavailable"  # type: ignore[index]
        assert (await one.publish([message("2")]))[0][0] == "unavailable"  # type: ignore[index]


async def test_a_node_starts_when_redis_does() -> None:
    with RedisServer() as server:
        server.kill()

        async def later() -> None:
            await asyncio.sleep(0.2)
            server.start()

        starting = asyncio.create_task(later())
        async with node(server.url) as one:
            assert await one.publish([message()]) == [1]
        await starting


async def test_data_of_another_version_is_refused(server: RedisServer) -> None:
    async with node(server.url) as one:
        await one.publish([message()])
        server.call("HSET", "fp:meta", "groups", 32)
        outcomes = await one.publish([message()])
        assert outcomes[0][0] == "unavailable" and "with 32 groups" in outcomes[0][1]  # type: ignore[index, operator]
    with pytest.raises(RedisRefused, match="with 32 groups, this server of version 1 with 16: choose another"):
        async with node(server.url):
            pass


async def test_what_cannot_be_written_down_is_refused(server: RedisServer) -> None:
    async with node(server.url) as one:
        bad = message()
        bad.as_of = "\ud800"
        assert (await one.publish([bad]))[0][0] == "failed"  # type: ignore[index]
        assert await one.publish([message()]) == [1]


async def test_a_start_that_is_given_up_ends() -> None:
    one = Node(f"redis://127.0.0.1:{free_port()}")
    starting = asyncio.create_task(one.writer.start())
    await auntil(lambda: one.states)
    await one.writer.close()
    with pytest.raises(RedisAway):
        await starting


async def test_replicas_have_what_is_acknowledged(server: RedisServer, brief: None) -> None:
    with RedisServer(replica_of=server) as replica:
        await auntil(lambda: server.call("INFO", "replication").get("slave0", {}).get("state") == "online")
        async with node(server.url) as one:
            assert await one.publish([message("1")]) == [1]
            assert replica.call("XLEN", f"fp:l:{{{group_of('/w/a')}}}") == 1
            replica.freeze()
            assert (await one.publish([message("2", 1)]))[0][0] == "unavailable"  # type: ignore[index]
            replica.kill()
            while (outcomes := await one.publish([message("2", 1)])) != [2]:  # one server is all there is now
                assert outcomes[0][0] == "unavailable"  # type: ignore[index]


async def test_standard_delivery_waits_for_no_replica() -> None:
    with Topology(quick=True, options={"min-replicas-to-write": "0"}) as topology:
        async with node(topology.url, guaranteed=False) as one:
            for replica in topology.replicas:
                replica.freeze()
            assert await asyncio.wait_for(one.publish([message("1")]), PATIENCE_SECONDS) == [1]
        async with node(topology.url) as one:
            waiting = asyncio.create_task(one.publish([message("2")]))
            await auntil(lambda: one.states and "no replica" in one.states[-1][1])
            assert not waiting.done()
            for replica in topology.replicas:
                replica.thaw()
            assert await waiting == [2]


async def test_a_failover_loses_and_doubles_nothing() -> None:
    """The quick one; tests/redis/test_failover.py has the others."""
    with Topology(quick=True) as topology:
        async with node(topology.url) as one, node(topology.url) as two:
            load = Load([one, two])
            await auntil(lambda: len(load.acknowledged) > 500)
            old = topology.primary
            old.kill()
            await asyncio.to_thread(topology.wait_new_primary, old)
            before = len(load.acknowledged)
            await auntil(lambda: len(load.acknowledged) > before + 500)
            await load.stop()
        load.check(topology.primary)
