"""The largest state that the limits allow comes to everybody, in whichever way and from wherever it was kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from fastpath.client.publisher.reading import Range, Reader, Run
from tests.support.edge.calling import HttpPeer
from tests.support.edge.largest import CONTENT, LARGEST, LIMITS, PLACES, SUBJECT, WAYS, fill
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WireClient, WirePublisher, resident_bytes
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

OLD = 20
"""Fields of 1 MB in a snapshot of before there was a bound."""


@pytest.fixture(scope="module")
def full() -> Iterator[Sidecar]:
    """One that holds the largest state."""
    with Sidecar(listen=PLACES) as sidecar:
        fill(sidecar)
        yield sidecar


@pytest.mark.parametrize("way", WAYS)
def test_it_comes_in_every_way(full: Sidecar, way: str) -> None:
    assert WAYS[way](full) == LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("character", ["\x01", '"', "é", "😀"], ids=["six bytes each", "escaped", "two", "four"])
def test_it_comes_in_every_way_whatever_it_is_made_of(character: str) -> None:
    """Characters that JSON has to escape are up to six bytes each there."""
    size = len(character.encode())
    with Sidecar(listen=PLACES) as sidecar, WirePublisher(sidecar) as publisher:
        expected = {name: length // size for name, length in LARGEST.items()}
        for name, length in expected.items():
            [outcome] = publisher.publish([SUBJECT, CONTENT, {name: character * length}])
            assert isinstance(outcome, int), outcome
        for name, way in WAYS.items():
            assert way(sidecar) in (expected, LARGEST), name


@pytest.mark.parametrize("delivery", ["guaranteed", "standard"])
@pytest.mark.parametrize("wanted", [["/many/*"], [f"/many/{number}" for number in range(4)]], ids=["pattern", "names"])
def test_several_of_them_come_one_after_the_other(delivery: str, wanted: list[str]) -> None:
    """A connection gets each once, and what is published then."""
    with Sidecar(delivery=delivery) as sidecar:
        for number in range(4):
            fill(sidecar, subject=f"/many/{number}")
        with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
            client.say("subscribe", id=1, subjects=wanted)
            got = [client.message() for _ in range(4)]
            assert sorted(client.subjects[one[0]] for one in got) == [f"/many/{number}" for number in range(4)]
            assert all({name: len(value) for name, value in one[4].items()} == LARGEST for one in got)
            publisher.publish(*[[f"/many/{number}", "after"] for number in range(4)])
            assert [client.message()[3] for _ in range(4)] == ["after"] * 4


def test_who_takes_nothing_is_closed_all_the_same(full: Sidecar) -> None:
    """As soon as more than its queue may hold waits beside what it asked for; nobody else notices."""
    with WireClient(full, receive_bytes=8192) as idle, WireClient(full) as reader, WirePublisher(full) as publisher:
        idle.subscribe("/large/live")
        idle.say("subscribe", id=1, subjects=[SUBJECT])
        reader.subscribe("/large/live")
        for number in range(12):
            publisher.publish(["/large/live", str(number), {"f": "y" * 900_000}])
            assert reader.message()[3] == str(number)
        assert idle.closed() == (4001, "slow_consumer")


def test_one_that_asks_for_it_and_takes_nothing_costs_no_copy(full: Sidecar) -> None:
    """All wait for the same bytes."""
    with ExitStack() as stack:
        before = resident_bytes(full.pid)
        for _ in range(40):
            client = stack.enter_context(WireClient(full, receive_bytes=8192))
            client.say("subscribe", id=1, subjects=[SUBJECT])
        with Control(full.control) as control:
            until(lambda: control.stats()["subscriptions"] >= 40)
        assert resident_bytes(full.pid) - before < 40 * LIMITS.snapshot_bytes_max // 3


def old(sidecar: Sidecar) -> None:
    """A snapshot that is larger than what is allowed by default."""
    with WirePublisher(sidecar) as publisher:
        for number in range(OLD):
            [outcome] = publisher.publish([SUBJECT, CONTENT, {f"f{number}": "x" * 1_000_000}])
            assert isinstance(outcome, int)


def check_old(sidecar: Sidecar) -> None:
    """It is handed on and goes on as it is, but does not grow."""
    expected = {f"f{number}": 1_000_000 for number in range(OLD)}
    for name in ("websocket, json", "websocket, msgpack", "session, poll", "rest, json", "control", "python"):
        assert WAYS[name](sidecar) == expected, name
    with WirePublisher(sidecar) as publisher:
        [outcome] = publisher.publish([SUBJECT, CONTENT, {"f0": "y" * 1_000_000}])
        assert isinstance(outcome, int)
        [refused] = publisher.publish([SUBJECT, CONTENT, {"f0": "y" * 1_000_001}])
        assert refused[0] == "too_large"


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_what_a_journal_holds_from_before_the_bound(tmp_path: Path, ends: str) -> None:
    settings = {"journal": "interval", "data": str(tmp_path / "data")}
    with Sidecar(snapshot_bytes_max=32 << 20, **settings) as before:
        old(before)
        getattr(before, ends)()
        with Sidecar(**settings) as after:
            check_old(after)


@pytest.mark.slow
@pytest.mark.redis
def test_what_redis_holds_from_before_the_bound() -> None:
    """Also of another node, which has it still."""
    with RedisServer() as redis, Sidecar(engine=redis.url, snapshot_bytes_max=32 << 20) as before:
        old(before)
        with Sidecar(engine=redis.url) as after:
            check_old(after)


@pytest.mark.redis
def test_what_is_sent_to_redis_without_waiting_is_bounded_too() -> None:
    """What is on its way counts: a publisher that does not wait gets no more in than one that does."""
    with RedisServer() as redis, Sidecar(engine=redis.url) as one, Sidecar(engine=redis.url) as other:
        with WirePublisher(one) as publisher:
            for number in range(12):
                publisher.packet("batch", number + 1, [[SUBJECT, CONTENT, {f"f{number}": "x" * 1_000_000}]])
            results = [publisher.next()[3][0] for _ in range(12)]
        assert [isinstance(result, int) for result in results] == [True] * 8 + [False] * 4
        assert {result[0] for result in results[8:]} == {"too_large"}
        assert results[:8] == list(range(1, 9)), "what is refused has no number"
        expected = {f"f{number}": 1_000_000 for number in range(8)}
        until(lambda: WAYS["rest, json"](other) == expected)
        with WirePublisher(other) as publisher:
            assert publisher.publish([SUBJECT, CONTENT, {"more": "x" * 1_000_000}])[0][0] == "too_large"
            assert publisher.publish([SUBJECT, "", None, {"removed": True}]) == [9]
            assert publisher.publish([SUBJECT, CONTENT, {"more": "x" * 1_000_000}]) == [10]


@pytest.mark.slow
def test_a_worker_that_comes_later_gets_all_of_them() -> None:
    """More than a link between workers may hold."""
    with Sidecar(workers=2) as sidecar:
        for number in range(12):
            fill(sidecar, subject=f"/many/{number}")
        kill_worker(sidecar, 1, 2)
        with spread(sidecar, 2) as clients:
            for client in clients.all:
                for number in range(12):
                    client.subscribe(f"/many/{number}")
                    assert {name: len(value) for name, value in client.message()[4].items()} == LARGEST
        assert "bytes wait for it" not in sidecar.log


@pytest.mark.slow
def test_a_base_of_a_journal_with_many_of_them(tmp_path: Path) -> None:
    """Which is written in the background, and read at the next start."""
    settings = {"journal": "interval", "data": str(tmp_path / "data"), "cache_messages": 1}
    with Sidecar(**settings) as sidecar:
        for number in range(20):
            fill(sidecar, subject=f"/many/{number}")
        until(lambda: list((tmp_path / "data").glob("*.base")), 60)
        sidecar.kill()
        sidecar.start()
        for number in range(20):
            with HttpPeer(sidecar) as peer:
                told = json.loads(peer.ask("GET", f"/snapshot?subject=/many/{number}").body)
                assert {name: len(value) for name, value in told["fields"].items()} == LARGEST


def test_the_largest_message_is_read_by_jobs() -> None:
    """Spark's source reads by the publisher port, whose frames may be smaller than a message that came another way."""
    with Sidecar(message_bytes_max=6 << 20, outbox_bytes_max=8 << 20) as sidecar:
        with WireClient(sidecar) as client:
            client.ask("publish", "published", subject=SUBJECT, content="x" * (6 << 20), closure="c")
        with Reader(sidecar.publisher_url) as reader:
            found = [run for runs in reader.read([Range(SUBJECT)]) for run in runs]
            assert [len(content) for run in found if isinstance(run, Run) for content in run.contents] == [6 << 20]
