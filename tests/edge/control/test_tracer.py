"""Traces: what happens to a user, a connection, a subject, event by event; bounded; and nothing while none runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.client.errors import ControlRefused
from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.messages import Message
from fastpath.core.wires.registry import wire_of
from fastpath.edge.control.tracer import CLIENTS_MAX, EVENTS_MAX
from fastpath.edge.control.traces import KEPT_MAX, RING, RUNNING_MAX
from fastpath.edge.runtime.runtime import Runtime, now
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.operators import Nowhere, Peer, Reader, linked, told
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.rights import load_rights, rule
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint
from tests.support.waiting import auntil, run, until

FILLER = "x" * 4000
EVERYBODY = rule(1, "everyone", "/a/**")

_tries = count()
"""Of places: a second try of a test finds what the first one has published."""


@pytest.fixture(scope="module")
def ward() -> Iterator[Sidecar]:
    """Everybody may do everything below /a."""
    with Sidecar(mode="rules", token_secret=SECRET, outbox_bytes_max=16 << 20) as sidecar:
        load_rights(sidecar.control, EVERYBODY)
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.fixture
def control(ward: Sidecar) -> Iterator[Control]:
    """A connection of Django's, once nobody of the test before is left."""
    with Control(ward.control) as control:
        until(lambda: control.clients()["total"] == 0)
        yield control
        for trace in Reader.begun:
            with suppress(ControlRefused):
                control.untrace(trace)
        Reader.begun.clear()


def called(sidecar: Sidecar, user: str, **options: Any) -> WireClient:
    """A client of that user."""
    client = WireClient(sidecar, **options)
    client.ask("connect", "connected", token=mint(user), client="tests/1")
    return client


def test_a_user_from_coming_to_going(ward: Sidecar, control: Control) -> None:
    """Whoever is there already, and whoever comes; of others nothing."""
    place = f"/a/coming{next(_tries)}"
    with called(ward, "ann") as there, called(ward, "bob") as bob:
        reader = Reader(control, user="ann")
        there.subscribe(f"{place}/*")
        bob.subscribe(f"{place}/*")
        reader.until("following", "command")
        control.publish([[f"{place}/new", "1"], [f"{place}/new", "22"]])
        reader.until("following", "command", "subscribed", "message", "message")
        with called(ward, "ann") as ann:
            first = ann.subscribe(f"{place}/one", "/b/no", history=5)[0]
            assert ann.ask("unsubscribe", "unsubscribed", subjects=[f"{place}/one"])
            ann.ask("publish", "published", subject=f"{place}/own", content="x", closure="1")
            ann.ask("publish", "published", subject="/b/no", content="x", closure="2")
            ann.ask("token", "error", token="none")
            ann.ask("nonsense", "error")
        bob.ask("publish", "published", subject=f"{place}/new", content="b", closure="3")
        events = _settled(reader, "closed", "message")
    here, gone = {event["connection"] for event in events if event["event"] in ("following", "connected")}
    assert here != gone
    assert {event["user"] for event in events} <= {"ann", ""}
    command, subscribed, message = events[1:4]
    assert told(command, "command", "connection") == ["subscribe", events[0]["connection"]]
    assert command["detail"] == {
        "subjects": [f"{place}/*"],
        "count": 1,
        "history": 0,
        "conflation": 0,
        "slow": "close",
        "since": 0,
    }
    assert told(subscribed, "subject", "pattern", "seq", "again") == [f"{place}/new", f"{place}/*", 0, False]
    assert told(message, "subject", "seq", "bytes", "how") == [f"{place}/new", 1, 1, "sent"]
    assert message["latency_ms"] >= 0
    by_name: dict[str, list[dict[str, Any]]] = {}
    for event in events[5:]:
        by_name.setdefault(event["event"], []).append(event)
    assert told(by_name["introduced"][0], "program") == ["tests/1"]
    assert by_name["subscribed"][0]["epoch"] == first["epoch"]
    assert told(by_name["denied"][0], "subject", "error") == ["/b/no", "denied"]
    assert told(by_name["unsubscribed"][0], "subject") == [f"{place}/one"]
    assert told(by_name["published"][0], "subject", "seq", "bytes", "repeated") == [f"{place}/own", 1, 1, False]
    assert told(by_name["unpublished"][0], "subject", "error") == ["/b/no", "denied"]
    assert [event["error"] for event in by_name["refused"]] == ["bad_token", "invalid"]
    assert told(by_name["closed"][0], "code", "reason") == [1006, "the connection was lost"]
    assert "token" not in str([event.get("detail") for event in events]), "of a token nothing is told"
    assert [event["command"] for event in by_name["command"]] == ["subscribe", "unsubscribe", "token"]
    assert {event["subject"] for event in by_name["message"]} == {f"{place}/new", f"{place}/own"}


def _settled(reader: Reader, *names: str) -> list[dict[str, Any]]:
    """All events, once each of these is among the last two."""
    until(lambda: reader.read() is not None and set(reader.names()[-2:]) == set(names))
    return reader.events


@pytest.mark.slow
def test_one_connection_until_it_ends(ward: Sidecar, control: Control) -> None:
    """Its queue, what may be conflated, and a trace that ends with it."""
    with (
        called(ward, "ann", receive_bytes=4096) as ann,
        called(ward, "ann") as other,
        WirePublisher(ward, mint("bob")) as publisher,
    ):
        ann.subscribe("/a/many")
        ann.subscribe("/a/number", slow="conflate")
        ann.subscribe("/a/grid", conflation=1000)
        other.subscribe("/a/many")
        name = control.clients()["clients"][0]["connection"]
        reader = Reader(control, connection=name)
        control.publish([["/a/grid", "1"]])
        for _ in range(9):
            publisher.publish(*(["/a/many", FILLER] for _ in range(200)), ["/a/number", "1"])
        until(lambda: reader.read() is not None and "lagging" in reader.names())
        publisher.publish(["/a/number", "2"])
        other.texts(1800)
        ann.texts(1800)
        until(lambda: reader.read() is not None and "caught_up" in reader.names())
        ann.frame(8, b"\x03\xe8bye")
        until(lambda: reader.read() == [] and reader.ended)
    events = reader.events
    assert reader.ended == "the connection has ended"
    assert {event["connection"] for event in events} == {name}
    how = {(event["subject"], event["how"]) for event in events if event["event"] == "message"}
    assert {("/a/grid", "conflated"), ("/a/many", "queued"), ("/a/number", "behind")} <= how
    named = [event for event in events if event["event"] != "message"]
    assert [event["event"] for event in named][:4] == ["following", "blocked", "lagging", "unblocked"]
    assert named[1]["queue_bytes"] > 0
    assert told(named[2], "subjects", "count") == [["/a/number"], 1]
    assert told(named[-1], "event", "code", "reason") == ["closed", 1000, "bye"]
    assert reader.dropped == 0


def test_a_subject_and_who_publishes_to_it(ward: Sidecar, control: Control) -> None:
    """Each publication with its outcome, to how many it went, and who begins and ends to read."""
    place = f"/a/s{next(_tries)}"
    with called(ward, "ann") as ann, called(ward, "bob") as bob, WirePublisher(ward, mint("carl")) as carl:
        bob.subscribe(f"{place}/one", conflation=1000)
        reader = Reader(control, subject=f"{place}/*")
        ann.subscribe(f"{place}/one", "/a/other")
        carl.publish([f"{place}/one", "1"], ["/a/other", "2"], [f"{place}/one", 7], ["/b/s/one", "3"])
        control.publish([[f"{place}/two", "22"]])
        ann.ask("unsubscribe", "unsubscribed", subjects=[f"{place}/one"])
        load_rights(ward.control, EVERYBODY, rule(2, "user:bob", f"{place}/*", allow=False), generation=2)
        bob.answer("revoked")
        events = reader.until(
            "subscribed",
            "unpublished",
            "delivered",
            "published",
            "delivered",
            "published",
            "unsubscribed",
            "revoked",
        )
        load_rights(ward.control, EVERYBODY, generation=3)
        bob.answer("subscribed")
        bob.sock.close()
        reader.until("subscribed", "closed")
    subscribed, unpublished, delivered, published, second, django, _, revoked = events[:8]
    assert told(subscribed, "user", "subject", "conflation") == ["ann", f"{place}/one", 0]
    assert told(unpublished, "user", "subject", "error") == ["carl", f"{place}/one", "invalid"]
    assert told(delivered, "subject", "seq", "bytes", "clients", "conflated", "queued") == [
        f"{place}/one",
        1,
        1,
        1,
        1,
        0,
    ]
    assert delivered["latency_ms"] >= 0
    assert told(published, "user", "seq", "repeated") == ["carl", 1, False]
    assert published["connection"].startswith(f"0.{ward.pid}.p")
    assert told(second, "subject", "clients") == [f"{place}/two", 0]
    assert told(django, "subject", "bytes") == [f"{place}/two", 2]
    assert "connection" not in django
    assert told(revoked, "user", "reason") == ["bob", "rule 2 denies it"]


def test_who_follows_a_pattern_together(ward: Sidecar, control: Control) -> None:
    """What happens to a group at once is told of each of its clients: of one whose trace it is, of a subject's all."""
    clients = [called(ward, user) for user in ("ann", "bob", "bob")]
    try:
        for client in clients:
            client.subscribe("/a/c/*")
        user, subject = Reader(control, user="ann"), Reader(control, subject="/a/c/new")
        control.publish([["/a/c/new", "1"]])
        user.until("following", "subscribed", "message")
        until(lambda: subject.read() is not None and subject.names().count("subscribed") == 3)
        assert {(event["user"], event["pattern"]) for event in subject.events if event["event"] == "subscribed"} == {
            ("ann", "/a/c/*"),
            ("bob", "/a/c/*"),
        }
        load_rights(ward.control, EVERYBODY, rule(2, "everyone", "/a/c/*", allow=False), generation=4)
        user.until("following", "subscribed", "message", "revoked")
        until(lambda: subject.read() is not None and subject.names().count("revoked") == 3)
    finally:
        load_rights(ward.control, EVERYBODY, generation=5)
        for client in clients:
            client.sock.close()


def test_a_publisher_by_its_connection_or_user(ward: Sidecar, control: Control) -> None:
    with WirePublisher(ward, mint("dora")) as publisher:
        by_user = Reader(control, user="dora")
        publisher.publish(["/a/d", "1"])
        [event] = by_user.until("published")
        by_name = Reader(control, connection=event["connection"])
        publisher.publish(["/a/d", "2"])
        assert by_name.until("published")[0]["seq"] == 2
    until(lambda: by_name.read() == [] and by_name.ended)
    assert by_name.ended == "the connection has ended"
    assert told(by_name.events[-1], "event", "connection") == ["closed", event["connection"]]
    with pytest.raises(ControlRefused, match="unknown"):
        until(lambda: not control.trace(connection=event["connection"]))


def test_more_than_may_be_noted_is_counted(ward: Sidecar, control: Control) -> None:
    """A hot subject costs a bounded number of events; so does a trace that is read late."""
    with WirePublisher(ward, mint("bob")) as publisher:
        reader = Reader(control, subject="/a/hot")
        for _ in range(6):
            publisher.publish(*(["/a/hot", "x"] for _ in range(1000)))
        until(lambda: control.traced(reader.trace)["dropped"] > 0)
        reader.end()
    assert reader.ended == "it was ended"
    assert len(reader.events) <= RING
    assert len(reader.events) + reader.dropped >= 12_000
    kept = [event["n"] for event in reader.events]
    assert kept == list(range(kept[0], kept[0] + len(kept)))


def test_as_many_that_have_ended_can_be_read_as_are_kept(control: Control) -> None:
    """Of more the oldest is forgotten."""
    traces = []
    for number in range(KEPT_MAX):
        traces.append(Reader(control, user=f"kept{number}").trace)
        control.untrace(traces[-1])
    assert all(control.traced(trace)["events"] == [] for trace in traces)
    control.untrace(Reader(control, user="one more").trace)
    with pytest.raises(ControlRefused, match="unknown"):
        control.traced(traces[0])
    assert control.traced(traces[1])["events"] == []


def test_how_many_run_and_what_is_refused(control: Control) -> None:
    traces = [Reader(control, user=f"user{number}").trace for number in range(RUNNING_MAX)]
    with pytest.raises(ControlRefused, match=f"limit: {RUNNING_MAX} traces run already"):
        control.trace(user="one more")
    control.untrace(traces[0])
    traces[0] = Reader(control, user="one more").trace
    for trace in traces:
        control.untrace(trace)
    for arguments, text in (
        ({}, "a user, a subject or a connection"),
        ({"user": "a", "subject": "/a/b"}, "a user, a subject or a connection"),
        ({"user": "a", "seconds": 61}, "seconds is a number from 1 to 60"),
        ({"user": "a", "seconds": 0}, "seconds is a number from 1 to 60"),
        ({"subject": "a"}, "invalid"),
        ({"connection": "0.1"}, "WORKER.PID.NUMBER"),
        ({"connection": "0.1.1"}, "unknown"),
    ):
        with pytest.raises(ControlRefused, match=text):
            control.call("trace", arguments)
    with pytest.raises(ControlRefused, match="unknown"):
        control.traced("another")


def attached(runtime: Runtime) -> tuple[Any, ...]:
    """All that something may be attached to."""
    broker = runtime.broker
    return tuple(broker.observers), broker.trail, runtime.sessions.witness, broker.log


def test_nothing_is_attached_while_no_trace_runs() -> None:
    """Not before, and not after any of the ways in which a trace ends."""

    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        before = attached(runtime)
        for about in ({"user": "ann"}, {"subject": "/a/**"}):
            trace = (await peer.ask(runtime, "trace", **about))["trace"]
            assert attached(runtime) != before
            runtime.broker.publish(None, [Message("/a/b", "1")], now())
            await peer.ask(runtime, "untrace", trace=trace)
            assert attached(runtime) == before
        assert (await peer.ask(runtime, "trace", connection="0.1.1"))[0] == "unknown"
        assert attached(runtime) == before
        runtime.watch.stop()

    run(story())


def test_what_a_listener_collects_has_not_been_sent() -> None:
    async def story() -> None:
        runtime = make_runtime(
            Settings(mode="none", listen="clients://127.0.0.1:0?batch_ms=10000"), asyncio.get_running_loop()
        )
        peer, wired = Peer(), terms_of(wire_of("json"), 10_000, 1 << 20)
        client = runtime.sessions.open(Nowhere(), 1, False, wired, "", "10.0.0.1", now())
        runtime.sessions.receive(client, b'{"op":"subscribe","id":1,"subjects":["/a/b"]}', now())
        name = (await peer.ask(runtime, "clients"))["clients"][0]["connection"]
        trace = (await peer.ask(runtime, "trace", connection=name))["trace"]
        runtime.broker.publish(None, [Message("/a/b", "1")], now())
        runtime.end()
        _, message = await auntil(
            lambda: len(events := runtime.verbs["traced"](peer, {"trace": trace})["events"]) == 2 and events
        )
        assert told(message, "event", "how", "seq") == ["message", "batched", 1]
        assert "latency_ms" not in message
        runtime.stop()

    run(story())


def test_the_other_workers_stop_with_it_and_with_the_first_worker() -> None:
    """One that is told of no end, because a new first worker knows of no trace, ends it by itself."""

    async def story() -> None:
        (first, other), peer = linked(), Peer()
        before = attached(other)
        trace = (await peer.ask(first, "trace", user="ann"))["trace"]
        assert attached(other) != before
        await peer.ask(first, "untrace", trace=trace)
        await auntil(lambda: attached(other) == before)
        await peer.ask(first, "trace", subject="/a/b")
        assert attached(other) != before
        other.workers.linked(0)
        assert attached(other) == before
        for runtime in (first, other):
            runtime.watch.stop()

    run(story())


@pytest.mark.slow
def test_nothing_is_attached_when_its_time_is_over() -> None:
    async def story() -> None:
        runtime, peer = make_runtime(Settings(mode="none"), asyncio.get_running_loop()), Peer()
        before = attached(runtime)
        await peer.ask(runtime, "trace", user="ann", seconds=1)
        assert attached(runtime) != before
        await auntil(lambda: attached(runtime) == before)
        runtime.watch.stop()

    run(story())


def test_the_bounds_are_those_that_the_documentation_tells() -> None:
    assert (RUNNING_MAX, RING, EVENTS_MAX, CLIENTS_MAX) == (4, 2000, 2000, 100)


@pytest.mark.slow
def test_a_trace_that_nobody_reads_ends(control: Control) -> None:
    """So does one whose time is over; what it has can still be read."""
    short, unread = Reader(control, user="ann", seconds=1), control.trace(user="ann", seconds=60)
    until(lambda: short.read() == [] and short.ended)
    assert short.ended == "its time is over"

    fill = [control.trace(user=f"fill{number}") for number in range(RUNNING_MAX - 1)]

    def room() -> str:
        for trace in fill:
            control.traced(trace)
        try:
            return control.trace(user="next")
        except ControlRefused:
            return ""

    trace = until(room, 25)
    with pytest.raises(ControlRefused, match="unknown"):
        control.traced(unread)
    for one in (trace, *fill):
        control.untrace(one)
