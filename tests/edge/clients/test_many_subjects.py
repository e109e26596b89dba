"""Commands of a thousand subjects, over every transport: taken in steps, in order, beside what others do meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.delivery.audience import Client
from fastpath.core.mqtt.packets import Filter, Pingreq, Pingresp, Suback, SubscribePacket, Unsuback, UnsubscribePacket
from fastpath.core.protocol.codec import JSON, decode_server, encode
from fastpath.core.protocol.messages import Ping, Pong, Subscribe, Subscribed, Unsubscribe, Unsubscribed
from fastpath.core.sessions.subscribe_commands import UNDER_WAY_MAX
from fastpath.core.websocket.frames import split_frames
from fastpath.core.wires.registry import PLAIN
from fastpath.edge.runtime.runtime import Runtime
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.mqtt import LISTEN, mqtt
from tests.support.edge.sessions import client_of
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

MANY = [f"/many/{number}" for number in range(1000)]
BUSY = MANY[::50]


@contextmanager
def busy(sidecar: Sidecar) -> Iterator[None]:
    """Some of the subjects are published to all the time."""
    over, begun = Event(), Event()

    def publish() -> None:
        with WirePublisher(sidecar) as publisher:
            while not over.is_set():
                publisher.publish(*([subject, "x"] for subject in BUSY))
                begun.set()

    thread = Thread(target=publish)
    thread.start()
    try:
        assert begun.wait(PATIENCE_SECONDS)
        yield
    finally:
        over.set()
        thread.join()


class Reading:
    """What a client reads, checked against what it was told of each subject."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.position: dict[str, int] = {}
        self.owed: dict[str, int] = {}
        self.live = 0

    def answer(self) -> dict[str, Any]:
        """The next answer; messages before it are the next ones of subjects that have begun and not ended."""
        while isinstance(value := self.client.next(), list):
            subject, number = self.client.subjects[value[0]], value[1]
            if self.owed[subject]:
                self.owed[subject] -= 1
                assert number == self.position[subject], "the snapshot that was announced"
                continue
            self.live += 1
            assert number == self.position[subject] + 1, "each message once, in order"
            self.position[subject] = number
        assert isinstance(value, dict)
        for result in value.get("results", ()):
            self.position[result["subject"]] = result["seq"]
            self.owed[result["subject"]] = result.get("messages", 0)
        for subject in value.get("subjects", ()):
            del self.position[subject], self.owed[subject]
        return value


@pytest.mark.parametrize("form", ["json", "msgpack", "stream", "poll"])
def test_what_is_said_behind_them_is_answered_behind_them_and_every_message_has_its_place(
    shared: Sidecar, form: str
) -> None:
    with client_of(shared, form) as client, busy(shared):
        client.ask("connect", "connected")
        reading = Reading(client)
        for _ in range(3):
            first = client.say("subscribe", subjects=MANY)
            client.say("ping")
            client.say("unsubscribe", subjects=MANY[100:])
            client.say("subscribe", subjects=MANY[:60])  # again
            client.say("unsubscribe", subjects=MANY)
            client.say("ping")
            answers = [reading.answer() for _ in range(6)]
            assert [answer["id"] for answer in answers] == list(range(first, first + 6))
            assert [result["subject"] for result in answers[0]["results"]] == MANY
            assert answers[2]["subjects"] == MANY[100:]
            assert answers[4]["subjects"] == MANY[:100]
            assert not reading.position
        client.say("subscribe", subjects=MANY)
        reading.answer()
        seen = reading.live
        while reading.live <= seen:
            client.say("ping")
            reading.answer()


def test_subscriptions_of_mqtt_have_their_order() -> None:
    with Sidecar(mode="none", listen=LISTEN) as sidecar, mqtt(sidecar, "many") as peer:
        texts = [f"many/{number}/x" for number in range(900)]
        peer.send(SubscribePacket(packet_id=1, filters=[Filter(text=text) for text in texts]))
        peer.send(Pingreq())
        peer.send(UnsubscribePacket(packet_id=2, filters=texts[1:]))
        peer.send(Pingreq())
        peer.receive(Unsuback)
        assert [type(packet) for packet in peer.packets[:2]] == [Suback, Pingresp]
        peer.receive(Pingresp)
        peer.receive(Pingresp)
        for text in reversed(texts):
            peer.publish(text, "still there")
        assert peer.message().topic == texts[0]


def test_who_goes_in_the_middle_leaves_nothing(shared: Sidecar) -> None:
    with Control(shared.control) as control:

        def left() -> tuple[int, int]:
            stats = control.stats()
            return int(stats["subscriptions"]), int(stats["subjects"])

        before = left()
        for turn in range(3):
            with ExitStack() as stack:
                clients = [stack.enter_context(WireClient(shared)) for _ in range(6)]
                for number, client in enumerate(clients):
                    client.say("subscribe", subjects=[f"/gone/{turn}/{number}/{at}" for at in range(1000)])
                clients[turn].answer("subscribed")
            until(lambda: left() == before)


class Heard:
    """The link of a client, as the core sees it."""

    def __init__(self, runtime: Runtime) -> None:
        self.told: list[object] = []
        self.held: list[bool] = []
        self.client = runtime.sessions.open(self, id(self) % 1000, False, PLAIN[JSON], "", "", 0)

    def write(self, data: bytes) -> None:
        """Link."""
        for frame in split_frames(data):
            head = {126: 4, 127: 10}.get(frame[1], 2)
            self.told.append(decode_server(frame[head:], JSON))

    def lag(self, data: bytes, sent: int) -> None:
        """Link."""
        raise AssertionError(f"{sent} of {len(data)} bytes were taken")

    def hold(self, why: int, held: bool) -> None:
        """Link."""
        self.held.append(held)

    def close(self, code: int, reason: str) -> None:
        """Link."""
        raise AssertionError(reason)


async def test_however_many_come_at_once_they_are_done_one_after_the_other_also_behind_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault in one of them, and one whose client goes, hold up nobody."""
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    clients = [Heard(runtime) for _ in range(12)]
    for number, one in enumerate(clients):
        command = Subscribe(id=1, subjects=[f"/line/{number}/{at}" for at in range(100)])
        runtime.sessions.receive(one.client, encode(command, JSON), 0)
    runtime.sessions.close(clients[1].client)
    runtime.sessions.close(clients[7].client)
    look = runtime.sessions.subscriptions.look

    def failing(client: Client, *rest: Any) -> Any:
        assert client is not clients[0].client, "a fault"
        return look(client, *rest)

    monkeypatch.setattr(runtime.sessions.subscriptions, "look", failing)
    ended: list[str] = []
    monkeypatch.setattr(clients[0], "close", lambda code, reason: ended.append(reason))
    rest = [one for at, one in enumerate(clients) if at not in (0, 1, 7)]
    held = []
    while not all(any(isinstance(told, Subscribed) for told in one.told) for one in rest):
        held.append(len(runtime.broker.interest.topics) - sum(len(one.client.subscriptions) for one in rest))
        await asyncio.sleep(0)
    assert ended == ["internal_error: a fault of the server; reconnect"]
    assert max(held) <= 100 * UNDER_WAY_MAX
    assert all(one.held == [True, False] for one in rest)


async def test_who_waits_for_its_turn_is_not_taken_for_idle() -> None:
    runtime = make_runtime(Settings(mode="none", idle_seconds=1), asyncio.get_running_loop())
    much, none = Heard(runtime), Heard(runtime)
    runtime.sessions.receive(much.client, encode(Subscribe(id=1, subjects=MANY), JSON), 0)
    guard = runtime.sessions.guard
    assert guard is not None
    assert not any(guard.idle(one.client, 0) for one in (much, none))
    assert [guard.idle(one.client, 2000) for one in (much, none)] == [False, True]
    runtime.sessions.close(much.client)


async def test_others_have_their_turns_between_the_steps() -> None:
    """Counted in turns of the loop, not in time: it takes a thousand subjects several."""
    runtime = make_runtime(Settings(mode="none"), asyncio.get_running_loop())
    much, little = Heard(runtime), Heard(runtime)
    for command, answer in (
        (Subscribe(id=1, subjects=MANY), Subscribed),
        (Unsubscribe(id=2, subjects=MANY), Unsubscribed),
    ):
        runtime.sessions.receive(much.client, encode(command, JSON), 0)
        assert much.held == [True], "nothing more is read of it"
        turns = 0
        while not any(isinstance(told, answer) for told in much.told):
            turns += 1
            runtime.sessions.receive(little.client, encode(Ping(id=turns), JSON), 0)
            runtime.end()
            assert sum(isinstance(told, Pong) for told in little.told) == turns
            await asyncio.sleep(0)
        assert much.held == [True, False]
        much.held.clear()
        little.told.clear()
        assert turns > (1 if answer is Subscribed else 0)
    runtime.sessions.close(much.client)
    assert not runtime.broker.interest.topics
