"""Several sidecars on one Redis: messages and positions hold on every node, and through the loss of Redis."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.redis import RedisServer, Topology
from tests.support.redis_servers import SYNCED
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis

_NUMBERS = count()
A = "/cluster/a"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """For stories in which nothing happens to it."""
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="module")
def pair(redis: RedisServer) -> Iterator[tuple[Sidecar, Sidecar]]:
    with Sidecar(engine=redis.url) as one, Sidecar(engine=redis.url) as other:
        yield one, other
        assert "Traceback" not in one.log + other.log, one.log + other.log


def subject() -> str:
    """One that no other test uses."""
    return f"/cluster/{next(_NUMBERS)}"


def position(result: dict[str, Any]) -> list[int]:
    """Where a subscription begins."""
    return [result["epoch"], result["seq"]]


def test_what_is_published_at_one_node_arrives_at_the_other(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    name = subject()
    with (
        WireClient(one) as here,
        WireClient(other, "msgpack") as there,
        WirePublisher(one) as first,
        WirePublisher(other) as second,
    ):
        here.subscribe(name)
        there.subscribe(name)
        numbers = []
        for n in range(20):
            numbers += (first, second)[n % 2].publish([name, str(n)])
        assert numbers == list(range(1, 21))
        expected = [(n + 1, str(n)) for n in range(20)]
        for client in (here, there):
            assert [(one[1], one[3]) for one in (client.message() for _ in range(20))] == expected
            assert client.quiet()


def test_a_client_goes_on_at_the_other_node_with_exactly_what_it_missed(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    name = subject()
    with WirePublisher(one) as publisher:
        publisher.publish(*[[name, str(n)] for n in range(1, 8)])
        with WireClient(one) as client:
            epoch = client.subscribe(name)[0]["epoch"]
        with WireClient(other) as client:
            until(lambda: client.subscribe(name)[0]["seq"] == 7)
            client.ask("unsubscribe", "unsubscribed", subjects=[name])
            (result,) = client.subscribe(name, since={name: [epoch, 4]})
            assert (result["recovery"], result["messages"], result["seq"]) == ("recovered", 3, 7)
            assert [client.message()[1] for _ in range(3)] == [5, 6, 7]
            publisher.publish([name, "8"])
            assert client.message()[1:4:2] == [8, "8"]


def test_a_position_that_a_node_has_not_come_to_yet_is_waited_for(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    name = subject()
    with WirePublisher(one) as publisher, WireClient(one) as client:
        epoch = client.subscribe(name)[0]["epoch"]
        publisher.publish([name, "1"])
        with WireClient(other) as moved:
            until(lambda: moved.subscribe(name)[0]["seq"] == 1)
            moved.ask("unsubscribe", "unsubscribed", subjects=[name])
            os.kill(other.pid, signal.SIGSTOP)
            try:
                number = moved.say("subscribe", subjects=[name], since={name: [epoch, 2]})
                publisher.publish([name, "2"])
            finally:
                os.kill(other.pid, signal.SIGCONT)
            result = moved.answer("subscribed", number)["results"][0]
            if "error" in result:
                assert result["error"] == "not_ready"
                result = moved.answer("subscribed")["results"][0]
            assert (result["recovery"], result["seq"]) == ("recovered", 2)
            publisher.publish([name, "3"])
            assert moved.message()[1] == 3


def test_a_position_that_never_comes_is_resynchronised(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    name = subject()
    with WirePublisher(one) as publisher, WireClient(other) as client:
        publisher.publish([name, "1"])
        until(lambda: client.subscribe(name)[0]["seq"] == 1)
        epoch = client.subscribe(name)[0]["epoch"]
        client.ask("unsubscribe", "unsubscribed", subjects=[name])
        (result,) = client.subscribe(name, since={name: [epoch, 9]})
        assert result["error"] == "not_ready"
        (result,) = client.answer("subscribed")["results"]
        assert (result["recovery"], result["seq"]) == ("resynchronised", 1)


def test_a_node_that_joins_later_has_it_all(redis: RedisServer, pair: tuple[Sidecar, Sidecar]) -> None:
    name = subject()
    with WirePublisher(pair[0], publisher="late") as publisher:
        publisher.publish(*[[name, str(n), {f"f{n}": "x"}, {"id": n}] for n in range(1, 6)])
        with Sidecar(engine=redis.url) as third, WireClient(third) as client:
            (result,) = client.subscribe(name, history=3)
            assert (result["seq"], result["messages"]) == (5, 3)
            assert client.texts(3) == ["3", "4", "5"]
            with WireClient(third) as other:
                other.subscribe(name)
                assert other.message()[3:] == ["5", {f"f{n}": "x" for n in range(1, 6)}, {"kind": "snapshot"}]
            with WirePublisher(third, publisher="late") as again:
                answers = again.publish([name, "5", None, {"id": 5}], [name, "6", None, {"id": 6}])
            assert answers == [5, 6]
            assert client.texts(1) == ["6"]


def test_redis_goes_and_comes_back() -> None:
    with RedisServer(options=SYNCED) as server, Sidecar(engine=server.url) as one, Sidecar(engine=server.url) as other:
        with (
            WirePublisher(one, publisher="p") as publisher,
            WireClient(other) as client,
            WireClient(one) as beside,
            WireClient(one) as late,
        ):
            beside.subscribe(A)
            (result,) = client.subscribe(A)
            publisher.publish([A, "1", None, {"id": 1}])
            assert client.texts(1) == ["1"]
            server.kill()
            publisher.packet("batch", 2, [[A, "2", None, {"id": 2}]])
            for each in (client, beside):  # each node says so when it has found out
                assert each.answer("notice")["code"] == "stale"
            assert publisher.silent(), "it cannot be stored"
            (answer,) = late.subscribe(A, since={A: [result["epoch"], 0]})
            assert (answer["recovery"], answer["messages"]) == ("recovered", 1), "the cache still serves"
            server.start()
            assert client.answer("notice")["code"] == "fresh"
            kind, number, _, answers = publisher.next()
            assert (kind, number) == ("ack", 2)
            assert [one if isinstance(one, int) else one[1] for one in answers] == [2]
            while late.answer("notice")["code"] != "fresh":
                pass
            (repeated,) = publisher_again(one, 2)
            assert (repeated if isinstance(repeated, int) else repeated[1]) == 2
            publisher.batch = 2
            publisher.publish([A, "3", None, {"id": 3}])
            until(lambda: late.texts(1) == ["3"])
            with Control(one.control) as control:
                figures = control.stats()
                assert figures["redis_connected"] == 1
                assert figures["redis_ack_pause_ms"] > 500
                assert figures["redis_batches"] >= 3
        with WireClient(other) as client:
            (answer,) = client.subscribe(A, since={A: [result["epoch"], 1]})
            assert (answer["recovery"], client.texts(2)) == ("recovered", ["2", "3"])
        assert "Traceback" not in one.log + other.log


def publisher_again(sidecar: Sidecar, number: int) -> list[Any]:
    """The same publication over another connection; the results."""
    with WirePublisher(sidecar, publisher="p") as publisher:
        return publisher.publish([A, str(number), None, {"id": number}])


@pytest.mark.slow
def test_publications_that_cannot_be_stored_in_time_are_unavailable() -> None:
    with (
        RedisServer(options=SYNCED) as server,
        Sidecar(engine=server.url) as sidecar,
        WirePublisher(sidecar, publisher="p") as publisher,
    ):
        publisher.publish([A, "1", None, {"id": 1}])
        server.kill()
        ((code, _),) = publisher.publish([A, "2", None, {"id": 2}])
        assert code == "unavailable"
        server.start()
        until(lambda: publisher.publish([A, "2", None, {"id": 2}]) == [2])


def test_an_emptied_redis_resynchronises_everybody() -> None:
    with (
        RedisServer() as server,
        Sidecar(engine=server.url) as one,
        Sidecar(engine=server.url) as other,
        WireClient(one) as here,
        WireClient(other) as there,
    ):
        here.subscribe(A)
        there.subscribe(A, "/cluster/other")
        with Sidecar(engine=server.url) as third, WirePublisher(third) as publisher:
            publisher.publish([A, "1"], [A, "2"], ["/cluster/other", "x"])
            assert here.texts(2) == ["1", "2"]
            assert sorted(there.texts(3)) == ["1", "2", "x"]
        (before,) = here.subscribe(A)
        server.restart(empty=True)
        for client in (here, there):
            event = client.answer("epoch")
            assert (event["epoch"] > before["epoch"], event["seq"]) == (True, 0)
        assert publisher_any(one, [A, "new"]) == [1]
        assert here.message()[1:4:2] == there.message()[1:4:2] == [1, "new"]
        with WireClient(other) as late:
            (result,) = late.subscribe(A, since={A: [before["epoch"], 2]})
            if "error" in result:
                (result,) = late.answer("subscribed")["results"]
            assert result["recovery"] == "resynchronised"
            assert late.texts(1) == ["new"]


def publisher_any(sidecar: Sidecar, row: list[Any]) -> list[Any]:
    """Publish when that is possible again."""
    with WirePublisher(sidecar) as publisher:
        return publisher.publish(row)


def test_two_workers_and_the_first_one_restarted() -> None:
    with RedisServer() as server, Sidecar(engine=server.url, workers=2) as sidecar, Sidecar(engine=server.url) as other:
        clients = [WireClient(sidecar) for _ in range(20)]  # so many that each worker has some
        try:
            for client in clients:
                epoch = client.subscribe(A)[0]["epoch"]
            with WirePublisher(other) as publisher:
                publisher.publish([A, "1"])
                for client in clients:
                    assert client.texts(1) == ["1"]
                os.kill(sidecar.ready["workers"][0], signal.SIGKILL)
                publisher.publish([A, "2"])
                until(lambda: sidecar.log.count("joined:") == 2)
                publisher.publish([A, "3"])
                followed = [texts_or_end(client, 2) for client in clients]
                assert ["2", "3"] in followed
                assert {str(one) for one in followed} <= {str(["2", "3"]), "lost"}, "its clients went with the first"
                with WireClient(sidecar) as late:
                    (result,) = late.subscribe(A, since={A: [epoch, 1]})
                    assert (result["recovery"], late.texts(2)) == ("recovered", ["2", "3"])
        finally:
            for client in clients:
                client.sock.close()


def texts_or_end(client: WireClient, count: int) -> list[str] | str:
    """The next texts, or that the connection was lost before them."""
    try:
        return client.texts(count)
    except (Ended, ConnectionError):
        return "lost"


def reads(sidecar: Sidecar) -> int:
    """How often it has begun to read from a Redis."""
    return len(re.findall(r"reading from Redis \S+, epoch", sidecar.log))


def test_the_clients_of_every_worker_are_told_that_redis_is_away() -> None:
    with RedisServer() as server, Sidecar(engine=server.url, workers=2) as sidecar:
        clients = [WireClient(sidecar) for _ in range(8)]
        try:
            for client in clients:
                client.subscribe(A)
            server.kill()
            for client in clients:
                assert client.answer("notice")["code"] == "stale"
            server.start()
            for client in clients:
                assert client.answer("notice")["code"] == "fresh"
        finally:
            for client in clients:
                client.sock.close()


@pytest.mark.slow
def test_standard_delivery_goes_on_without_redis_and_comes_back() -> None:
    server = RedisServer(options=SYNCED)
    with (
        server,
        Sidecar(engine=server.url, delivery="standard") as one,
        Sidecar(engine=server.url, delivery="standard") as other,
        WirePublisher(one) as publisher,
        WireClient(one) as here,
        WireClient(other) as there,
    ):
        epoch = here.subscribe(A)[0]["epoch"]
        there.subscribe(A)
        publisher.publish([A, "1"])
        assert here.texts(1) == there.texts(1) == ["1"]
        server.kill()
        assert publisher.publish([A, "2"]) == [2], "the node numbers by itself"
        event = here.answer("epoch")
        assert (event["epoch"] > epoch, event["seq"]) == (True, 1)
        assert here.message()[1:4:2] == [2, "2"]
        until(lambda: all("goes on by itself" in node.log for node in (one, other)), 30)
        server.start()
        until(lambda: all("Redis is back" in node.log and reads(node) >= 2 for node in (one, other)), 30)
        publisher.publish([A, "3"])
        assert here.texts(1) == there.texts(1) == ["3"]
        with WireClient(one) as late:
            late.subscribe(A)
            assert late.texts(1) == ["3"]


@pytest.mark.slow
def test_a_failover_under_subscribers() -> None:
    with (
        Topology(quick=True) as topology,
        Sidecar(engine=topology.url) as one,
        Sidecar(engine=topology.url) as other,
        WirePublisher(one, publisher="p") as publisher,
        WireClient(other) as client,
    ):
        client.subscribe(A)
        for n in range(1, 50):
            publisher.publish([A, str(n), None, {"id": n}])
        old = topology.primary
        old.kill()
        answers = publisher.publish([A, "50", None, {"id": 50}])
        if isinstance(answers[0], list) and answers[0][0] == "unavailable":
            until(lambda: isinstance(publisher.publish([A, "50", None, {"id": 50}])[0], int | list), 20)
        got = [client.message()[3] for _ in range(50)]
        assert got == [str(n) for n in range(1, 51)]


@pytest.mark.slow
def test_clients_are_told_while_nothing_can_be_acknowledged() -> None:
    with (
        Topology() as topology,
        Sidecar(engine=topology.url, workers=2) as sidecar,
        WirePublisher(sidecar, publisher="p") as publisher,
    ):
        clients = [WireClient(sidecar) for _ in range(6)]
        try:
            for client in clients:
                client.subscribe(A)
            publisher.publish([A, "1", None, {"id": 1}])
            for replica in topology.replicas:
                replica.freeze()
            publisher.packet("batch", 2, [[A, "2", None, {"id": 2}]])
            for client in clients:
                assert client.answer("notice")["code"] == "stale"
            for replica in topology.replicas:
                replica.thaw()
            for client in clients:
                assert client.answer("notice")["code"] == "fresh"
        finally:
            for client in clients:
                client.sock.close()
