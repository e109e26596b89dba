"""Who listens to the audit over the control socket: what it is told, and what it costs when it does not read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.protocol.packets import pack, read_publications
from fastpath.edge.audit import event_queue, listeners
from fastpath.edge.audit import files as audit_files
from fastpath.edge.audit.event_queue import AuditQueue
from fastpath.edge.audit.events import AccessEvent, stamp
from fastpath.edge.audit.recorder import Audit
from fastpath.edge.node.messages import Events, EventsTaken, Listen, Packet, encode
from fastpath.edge.runtime.runtime import Runtime
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.audit import Written
from tests.support.ear import Ear
from tests.support.edge.operators import Following, Leading
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import auntil, run


def publish(runtime: Runtime, rows: list[Any]) -> None:
    """As Django does."""
    runtime.publish(None, rows, read_publications(rows), lambda outcomes: None)


def test_each_hears_the_kinds_it_asked_for(shared: Sidecar) -> None:
    with Ear(shared.control, "access") as access, Ear(shared.control, "message", "cache") as messages:
        assert access.answer == [1, "ok", {"kinds": ["access"]}]
        with WireClient(shared, headers="User-Agent: Browser/9\r\n") as client:
            client.subscribe("/ear/a")
            client.ask("publish", "published", subject="/ear/a", content="x", closure="1")
        gone = access.hear(event="disconnected")
        assert [event["event"] for event in access.heard] == ["connected", "subscribed", "disconnected"]
        assert access.heard[0]["agent"] == "Browser/9"
        assert gone["time"].endswith("Z")
        assert messages.hear(kind="message")["subject"] == "/ear/a"
        assert {event["kind"] for event in messages.heard} == {"message", "cache"}


@pytest.mark.parametrize("kinds", [["nonsense"], [["access"]], 7, "access"])
def test_what_is_no_list_of_kinds_is_refused(shared: Sidecar, kinds: Any) -> None:
    with Ear(shared.control, "access") as ear:
        assert ear.ask(kinds)[1:2] == ["error"]


def test_other_kinds_in_place_of_the_first(shared: Sidecar) -> None:
    with Ear(shared.control, "access") as ear, WirePublisher(shared) as publisher:
        ear.ask(["message"])
        publisher.publish(["/ear/b", "x"])
        ear.hear(kind="message")
        assert {event["kind"] for event in ear.heard} <= {"message", "access"}
        assert not [event for event in ear.heard if event["event"] == "publisher_disconnected"]


def test_who_does_not_read_misses_events_and_is_told_how_many(shared: Sidecar) -> None:
    """Another one beside it misses none, and nothing grows."""
    rows = [["/ear/c", "x"]] * 10_000
    with Ear(shared.control, "message") as deaf, Ear(shared.control, "message") as good, WirePublisher(shared) as port:
        for count in range(10_000, 80_000, 10_000):
            port.publish(*rows)
            while len(good.heard) < count:
                good.hear()
        assert good.dropped == 0
        while not deaf.dropped:
            deaf.hear()
            port.publish(["/ear/c", "more"])
        assert deaf.dropped > 1000
        assert len(deaf.heard) + deaf.dropped >= 70_000
    with Control(shared.control) as control:
        assert control.stats()["audit_dropped"] == 0


def test_what_nobody_asks_for_takes_part_in_nothing() -> None:
    """Off is off: no observer of clients, no trail of publications, nobody told of the cache."""

    async def story() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        audit = Audit(runtime, 0, 1, dict)
        runtime.serve(audit)
        broker = runtime.broker
        before = list(broker.observers)
        assert (broker.trail, broker.history.told, audit in before) == (None, None, False)
        peer = Peer()
        for kinds, observes, follows, sees in (
            (["access"], True, True, False),
            (["message"], False, True, False),
            (["cache"], True, True, True),
            (["statistics"], False, False, False),
        ):
            runtime.verbs["listen"](peer, {"kinds": kinds})
            assert (audit in broker.observers, broker.trail is audit) == (observes, follows), kinds
            assert (broker.history.told is not None) == sees, kinds
        for ended in peer.ended:
            ended()
        assert (broker.trail, broker.history.told, broker.observers) == (None, None, before)
        runtime.stop()

    run(story())


def test_more_events_than_can_wait_are_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the files by kind, to listeners as a number, and in the figures."""
    monkeypatch.setattr(event_queue, "EVENTS_MAX", 10)
    written, peer = Written(tmp_path), Peer()

    async def story() -> int:
        settings = Settings(mode="none", audit="message", audit_folder=str(tmp_path))
        runtime = make_runtime(settings, asyncio.get_running_loop())
        audit = Audit(runtime, 0, 1, dict)
        runtime.serve(audit)
        runtime.verbs["listen"](peer, {"kinds": ["access", "message"]})
        publish(runtime, [["/q/a", "x"] for _ in range(25)])
        publish(runtime, [["no subject", "x"]])
        await auntil(lambda: written.all(kind="audit"))
        publish(runtime, [["/q/b", "x"], ["no subject", "x"]])
        await auntil(lambda: written.all(subject="/q/b"))
        runtime.stop()
        return audit.dropped

    assert run(story()) == 16
    assert [(one["event"], one.get("dropped")) for one in written.all()] == [
        *[("published", None)] * 10,
        ("dropped", {"message": 15}),
        ("published", None),
    ]
    assert [(name, len(content["events"]), content["dropped"]) for name, content in peer.pushed] == [
        ("events", 10, 16),
        ("events", 2, 0),
    ]


def test_an_event_that_cannot_be_written_is_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone: in the files, for listeners, and on the way to the first worker; the others go on, in their order."""
    written, peer, link = Written(tmp_path), PackingPeer(), PackingLink()

    def access(agent: str, messages: int = 0) -> AccessEvent:
        return AccessEvent(
            time=1, kind="access", event="opened", node="n", worker=1, connection="c", user="", address="a",
            agent=agent, messages=messages,
        )  # fmt: skip

    async def story() -> int:
        settings = Settings(mode="none", audit="access", audit_folder=str(tmp_path))
        runtime = make_runtime(settings, asyncio.get_running_loop())
        events = AuditQueue(runtime, 1, 2, lambda: None)
        runtime.serve(events.listeners)
        runtime.verbs["listen"](peer, {"kinds": ["access"]})
        runtime.workers.follow(link)
        runtime.workers.received(0, Listen(["access"]))
        events.note(access("before"))
        events.note(access("half \ud83c"))
        events.note(access("between"))
        events.note(access("huge", 2**70))
        events.note(access("behind"))
        await auntil(lambda: events.waiting == 0)
        events.note(access("later"))
        events.close()
        runtime.stop()
        return events.dropped

    assert run(story()) == 1, "a number of any size can be written"
    assert [one["agent"] for one in written.all(kind="access")] == ["before", "between", "huge", "behind", "later"]
    assert written.all(kind="audit")[0]["dropped"] == {"access": 1}
    assert [([event.agent for event in content["events"]], content["dropped"]) for _, content in peer.pushed] == [
        (["before", "between", "behind"], 2),
        (["later"], 0),
    ]
    told = [(packet.lost, [event.agent for event in packet.events]) for packet in link.sent if type(packet) is Events]
    assert told == [(2, ["before", "between", "behind"]), (0, ["later"])]
    assert "access" in caplog.text


def test_more_than_the_disk_takes_is_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next event, or at the end."""
    monkeypatch.setattr(audit_files, "LINES_MAX", 5)
    written = Written(tmp_path)

    async def story() -> int:
        settings = Settings(mode="none", audit="message", audit_folder=str(tmp_path))
        runtime = make_runtime(settings, asyncio.get_running_loop())
        audit = Audit(runtime, 0, 1, dict)
        runtime.serve(audit)
        publish(runtime, [["/q/a", "x"] for _ in range(10)])
        await auntil(lambda: audit.dropped == 10)
        publish(runtime, [["/q/b", "x"]])
        await auntil(lambda: written.all(kind="audit", dropped={"message": 10}))
        publish(runtime, [["/q/c", "x"] for _ in range(7)])
        runtime.stop()
        return audit.dropped

    assert run(story()) == 17
    assert [(one.get("subject"), one.get("dropped")) for one in written.all()] == [
        ("/q/b", None),
        (None, {"message": 10}),
        (None, {"message": 7}),
    ]


def test_what_another_worker_tells_and_could_not_tell() -> None:
    peer = Peer()
    answers: list[Any] = []

    async def story() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        runtime.serve(Audit(runtime, 0, 2, dict))
        links = Leading()
        runtime.workers.lead(links)
        runtime.verbs["listen"](peer, {"kinds": ["message"]})
        runtime.workers.received(1, Events(7, [{"kind": "message", "n": 1}, {"kind": "access", "n": 2}]))
        runtime.workers.linked(2)
        runtime.stop()
        answers.extend(links.sent)

    run(story())
    assert peer.pushed == [("events", {"events": [{"kind": "message", "n": 1}], "dropped": 7})]
    listen = Listen(["message"])
    assert answers == [(listen, None), (EventsTaken(2), 1), (listen, 2)]


def test_content_that_waits_is_bounded_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes in small slices: no turn of the loop encodes megabytes."""
    monkeypatch.setattr(event_queue, "CONTENT_WAITING_MAX", 100)
    monkeypatch.setattr(event_queue, "SLICE_BYTES", 20)
    peer = Peer()

    async def story() -> int:
        runtime = make_runtime(Settings(mode="none", audit_content=True), asyncio.get_running_loop())
        audit = Audit(runtime, 0, 1, dict)
        runtime.serve(audit)
        runtime.verbs["listen"](peer, {"kinds": ["message"]})
        for _ in range(2):
            peer.pushed.clear()
            publish(runtime, [["/q/a", "0123456789"] for _ in range(15)])
            await auntil(lambda: len(peer.pushed) == 5)
        runtime.stop()
        return audit.dropped

    assert run(story()) == 10
    assert [len(content["events"]) for _, content in peer.pushed] == [2] * 5


@pytest.mark.parametrize("settings", [{"delivery": "standard"}, {"cache_messages": 0}])
def test_without_a_cache_nothing_is_cached(settings: dict[str, Any]) -> None:
    peer = Peer()

    async def story() -> None:
        runtime = make_runtime(Settings(mode="none", **settings), asyncio.get_running_loop())
        runtime.serve(Audit(runtime, 0, 1, dict))
        runtime.verbs["listen"](peer, {"kinds": ["message", "cache"]})
        publish(runtime, [["/q/a", "x"]])
        await auntil(lambda: peer.pushed)
        runtime.stop()

    run(story())
    assert [event.kind for _, content in peer.pushed for event in content["events"]] == ["message"]


def test_another_worker_sends_no_more_than_the_first_one_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "WINDOW", 10)
    link = Following()
    sent = link.sent

    async def story() -> None:
        runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
        audit = Audit(runtime, 1, 2, dict)
        runtime.serve(audit)
        runtime.workers.follow(link)
        runtime.workers.received(0, Listen(["message"]))

        async def told(count: int, *, goes: bool) -> None:
            before = len(sent)
            publish(runtime, [["/q/a", "x"] for _ in range(count)])
            await auntil(lambda: audit.waiting == 0)
            assert len(sent) == before + goes

        await told(11, goes=True)
        await told(3, goes=False)
        runtime.workers.received(0, EventsTaken(11))
        await told(12, goes=True)
        await told(4, goes=False)
        runtime.workers.linked(0)  # a new first worker
        await told(1, goes=True)
        runtime.workers.received(0, Listen([]))
        await told(5, goes=False)
        assert audit not in runtime.broker.observers
        runtime.stop()

    run(story())
    assert all(type(packet) is Events for packet in sent)
    assert [(packet.lost, len(packet.events)) for packet in sent] == [(0, 11), (3, 12), (4, 1)]


class Peer:
    """A connection of the control socket as ``listen`` sees it."""

    request = 1

    def __init__(self) -> None:
        self.ended: list[Any] = []
        self.pushed: list[tuple[str, dict[str, Any]]] = []

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Not here."""

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Keep it."""
        self.pushed.append((name, content))
        return 0

    def waiting(self) -> int:
        """A peer of this test has taken all."""
        return 0


class PackingPeer(Peer):
    """One that packs what is said, as a connection does."""

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Keep it, or raise."""
        pack([0, name, content])
        return super().push(name, content)


class PackingLink(Following):
    """One that packs what is sent."""

    def send(self, packet: Packet) -> bool:
        """Keep it, or raise."""
        encode(packet)
        return super().send(packet)


def test_times() -> None:
    assert stamp(0) == "1970-01-01T00:00:00.000Z"
    assert stamp(1_795_323_353_394) == "2026-11-22T04:55:53.394Z"
    assert stamp(1 << 52) == "9999-12-31T23:59:59.999Z", "an outside issuer's token that hardly ends"
    assert stamp(10**300) == stamp(1 << 52)
    assert stamp(-(10**300)) == stamp(0)


def test_the_figures_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        settings = Settings(mode="none", audit="statistics", audit_folder=str(tmp_path))
        runtime = make_runtime(settings, asyncio.get_running_loop())
        figures = iter((1.0, 2.0))
        runtime.serve(Audit(runtime, 0, 1, lambda: {"worker": 0, "messages_in": next(figures)}))
        runtime.stop()

    run(story())
    assert [one["figures"] for one in Written(tmp_path).all()] == [{"messages_in": 1.0}, {"messages_in": 2.0}]
