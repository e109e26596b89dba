"""Sessions of MQTT clients: what goes on when a client comes back, also to a sidecar that was stopped or killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastpath.client.control.client import Control
from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import (
    Ack,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    Pingreq,
    Pingresp,
    PublishPacket,
    SubscribePacket,
    Type,
    Will,
)
from fastpath.core.mqtt.reasons import Reason
from fastpath.edge.clients.mqtt.connections import STEP
from fastpath.edge.clients.mqtt.sessions import MqttSessions
from fastpath.edge.clients.mqtt.stream import MqttStream
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.edge.mqtt import LISTEN, MqttPeer, kept, mqtt
from tests.support.edge.rules import rule, ruled
from tests.support.hook import Answering, named, yes
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

LEVELS = pytest.mark.parametrize("level", [4, 5])


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def lasting(level: int = 5) -> dict[str, Any]:
    """What a client says who wants its session to last."""
    return {"clean": False} | ({"properties": {"session_expiry": 600}} if level == 5 else {})


class SlowStream:
    """A connection of which one look takes a while."""

    def __init__(self, keep_alive: int) -> None:
        self.talk = SimpleNamespace(keep_alive=keep_alive)
        self.looked = 0
        self.closed: Reason | None = None

    def look(self, awake: float) -> float:
        """It has said nothing since the start."""
        del awake
        until = time.perf_counter() + 0.0002
        while time.perf_counter() < until:
            pass
        self.looked += 1
        return 3.0

    def close(self, reason: Reason, text: str) -> None:
        """It is told why."""
        del text
        self.closed = reason


def test_a_crowd_is_looked_at_over_many_turns() -> None:
    """Each once, and who was silent for too long is closed; a second look waits for the first."""

    async def turns() -> int:
        sessions = MqttSessions(make_runtime(Settings(mode="none"), asyncio.get_running_loop()))
        for stream in streams:
            sessions.came(cast(MqttStream, stream))
        sessions.on_second(1)
        sessions.on_second(1)
        count = 0
        while not streams[-1].looked:
            await asyncio.sleep(0)
            count += 1
        for _ in range(3):
            await asyncio.sleep(0)
        return count

    streams = [SlowStream(number % 3) for number in range(10 * STEP)]
    assert asyncio.run(turns()) >= 9
    assert {stream.looked for stream in streams} == {1}
    for stream in streams:
        assert stream.closed is (Reason.KEEP_ALIVE_TIMEOUT if stream.talk.keep_alive == 1 else None)


def test_who_is_not_heard_is_not_called_silent() -> None:
    """While a hook is asked nothing is read of what the client says."""
    with (
        Sidecar(listen=LISTEN, hooks="publish", hook_seconds=8) as sidecar,
        Answering(sidecar.control, lambda question: None) as hook,
        mqtt(sidecar, "a", keep_alive=1) as one,
    ):
        one.sock.settimeout(3.5)
        with pytest.raises(TimeoutError):
            one.publish("/stocks/a", "x")
        hook.answer(hook.wait("publish"), yes(hook.asked[-1]))
        assert one.publish("/stocks/a", "x") == 0


@LEVELS
def test_a_session_goes_on_where_it_was(broker: Sidecar, level: int) -> None:
    name, topic = f"lasting{level}", f"missed/{level}"
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        assert not one.connect(name, **lasting(level)).session_present
        one.subscribe(f"{topic}/+")
        one.publish(f"{topic}/a", "1")
        first = one.message(acknowledge=False)
    with mqtt(broker, level=level) as other:
        other.publish(f"{topic}/a", "2")
        other.publish(f"{topic}/b", "3")
        other.publish(f"{topic}/b", "4", 0)
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        assert one.connect(name, **lasting(level)).session_present
        again = one.message()
        assert (again.packet_id, again.dup, again.payload) == (first.packet_id, True, b"1")
        assert sorted(one.messages(2)) == [(f"{topic}/a", b"2", 1, False), (f"{topic}/b", b"3", 1, False)]
        assert one.silent()
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        assert not one.connect(name).session_present
        assert one.silent()


@LEVELS
@pytest.mark.parametrize("websocket", [False, True])
def test_a_subscription_counts_although_its_client_goes_before_it_is_answered(
    broker: Sidecar, level: int, websocket: bool
) -> None:
    """SUBSCRIBE and DISCONNECT in one piece: what comes from then on is the session's, and nothing of before."""
    name = f"hasty{level}{websocket}"
    address = broker.ready["clients" if websocket else "mqtt"][0]
    with mqtt(broker) as mouth:
        mouth.publish(f"{name}/a", "before")
        with MqttPeer(address, level, websocket=websocket) as one:
            one.connect(name, **lasting(level))
            filters = [Filter(text=f"{name}/a", qos=1), Filter(text=f"{name}/#", qos=1)]
            packets = SubscribePacket(packet_id=1, filters=filters), Disconnect()
            one.send_bytes(b"".join(encode(packet, level) for packet in packets))
            one.ended()
        for topic in ("a", "b"):
            mouth.publish(f"{name}/{topic}", topic)
    with MqttPeer(address, level, websocket=websocket) as one:
        assert one.connect(name, **lasting(level)).session_present
        assert sorted(payload for _, payload, _, _ in one.messages(2)) == [b"a", b"b"]
        assert one.silent()


def test_a_session_of_the_other_version_is_not_present(broker: Sidecar) -> None:
    """What is under way are packets of one version: who comes with the other one is told to begin anew."""
    with MqttPeer(broker.ready["mqtt"][0], 5) as one:
        one.connect("changing", clean=False, properties={"session_expiry": 60})
        one.subscribe("changed/+")
        one.publish("changed/a", "1")
        one.message(acknowledge=False)
    with MqttPeer(broker.ready["mqtt"][0], 4) as one:
        assert not one.connect("changing", clean=False).session_present
        one.publish("changed/a", "2")
        assert one.silent()


def test_a_publication_that_is_sent_again_is_stored_once(broker: Sidecar) -> None:
    with mqtt(broker) as reader:
        reader.subscribe("once")
        with mqtt(broker, "retrying", **lasting()) as one:
            one.publish("once", "x", packet_id=9)
        with mqtt(broker, "retrying", **lasting()) as one:
            assert one.publish("once", "x", packet_id=9, dup=True) == 0
            assert one.publish("once", "y", packet_id=9) == 0
        assert [payload for _, payload, _, _ in reader.messages(2)] == [b"x", b"y"]
        assert reader.silent()


def resting(broker: Sidecar, name: str, **more: Any) -> AbstractContextManager[MqttPeer]:
    """A client that is sent one message until it acknowledges."""
    return mqtt(broker, name, clean=False, properties={"session_expiry": 600, "receive_maximum": 1}, **more)


def test_a_snapshot_that_the_client_was_not_sent_comes_when_it_is_back() -> None:
    """It stands for what the cache has not any more: where it waits for an acknowledgement, nothing is reached yet."""
    with Sidecar(listen=LISTEN, cache_messages=5) as sidecar, mqtt(sidecar) as mouth:
        with resting(sidecar, "twice away") as one:
            one.subscribe("gap/a")
            mouth.publish("gap/a", "1", retain=True)
            assert one.message(acknowledge=False).payload == b"1"
        for number in range(2, 21):
            mouth.publish("gap/a", str(number), retain=True)
        with resting(sidecar, "twice away") as one:
            assert one.message(acknowledge=False).dup
            assert one.silent()
        for number in (21, 22):
            mouth.publish("gap/a", str(number), retain=True)
        with resting(sidecar, "twice away") as one:
            assert one.messages(2) == [("gap/a", b"1", 1, False), ("gap/a", b"22", 1, True)]
            assert one.silent()


def test_a_snapshot_under_way_tells_what_it_stands_for_also_to_a_sidecar_that_was_stopped(tmp_path: Path) -> None:
    """It is read again as the message that it was, and would come without its flag."""
    settings = {"cache_messages": 5, "journal": "interval", "data": tmp_path}
    with Sidecar(listen=LISTEN, **settings) as sidecar:
        with mqtt(sidecar, "away", **lasting()) as one, mqtt(sidecar) as mouth:
            one.subscribe("gap/a")
            mouth.publish("gap/a", "1", retain=True)
            assert one.messages(1) == [("gap/a", b"1", 1, False)]
            assert one.silent()
        with mqtt(sidecar) as mouth:
            for number in range(2, 21):
                mouth.publish("gap/a", str(number), retain=True)
        with mqtt(sidecar, "away", **lasting()) as one:
            found = one.message(acknowledge=False)
            assert (found.payload, found.retain, found.dup) == (b"20", True, False)
        sidecar.stop()
        sidecar.start()
        with mqtt(sidecar, "away", **lasting()) as one:
            again = one.message()
            assert (again.payload, again.retain, again.dup, again.packet_id) == (b"20", True, True, found.packet_id)
            assert one.silent()


def test_what_is_retained_and_was_not_sent_yet_comes_when_the_client_is_back(broker: Sidecar) -> None:
    with mqtt(broker) as mouth:
        mouth.publish("first/b", "kept", retain=True)
        with resting(broker, "interrupted") as one:
            one.subscribe("first/a")
            mouth.publish("first/a", "1")
            one.message(acknowledge=False)
            one.subscribe("first/b")
            assert one.silent()
        mouth.publish("first/b", "next", retain=True)
        with resting(broker, "interrupted") as one:
            assert [payload for _, payload, _, _ in one.messages(3)] == [b"1", b"kept", b"next"]
            assert one.silent()


@pytest.mark.parametrize("waits", [0, 1], ids=["alone", "behind others"])
@pytest.mark.parametrize("again", ["named", "by pattern", "while it runs"])
def test_what_is_retained_comes_also_to_who_had_it_by_an_earlier_subscription(
    broker: Sidecar, again: str, waits: int
) -> None:
    """And has subscribed to it again, when the connection ended before it was sent."""
    name = f"earlier {again} {waits}".replace(" ", "-")
    with mqtt(broker) as mouth:
        mouth.publish(f"{name}/b", "kept", retain=True)
        with resting(broker, name) as one:
            one.subscribe(f"{name}/a", f"{name}/b")
            assert one.messages(1) == [(f"{name}/b", b"kept", 1, True)]
            if again != "while it runs":
                one.unsubscribe(f"{name}/b")
            for number in range(1 + waits):
                mouth.publish(f"{name}/a", str(number))
            one.message(acknowledge=False)
            one.subscribe(f"{name}/+" if again == "by pattern" else f"{name}/b")
            assert one.silent()
        with resting(broker, name) as one:
            found = [payload for topic, payload, _, _ in one.messages(2 + waits) if topic == f"{name}/b"]
            assert found == [b"kept"]
            assert one.silent()


@LEVELS
def test_another_publication_with_a_packet_id_of_late_is_stored_though_it_comes_as_again(
    broker: Sidecar, level: int
) -> None:
    """A client may use an id anew once it is acknowledged, and its connection end before the publication arrives."""
    topic = f"reused/{level}"
    with mqtt(broker) as reader:
        reader.subscribe(topic)
        with mqtt(broker, f"reusing{level}", level, **lasting(level)) as one:
            assert one.publish(topic, "x", packet_id=1) == 0
        with mqtt(broker, f"reusing{level}", level, **lasting(level)) as one:
            assert one.publish(topic, "y", packet_id=1, dup=True) == 0
            assert one.publish(topic, "y", packet_id=1, dup=True) == 0
            assert one.publish(topic, "z", packet_id=2) == 0
        assert [payload for _, payload, _, _ in reader.messages(3)] == [b"x", b"y", b"z"]
        assert reader.silent()


@LEVELS
def test_another_connection_takes_the_session_and_the_will_is_published(broker: Sidecar, level: int) -> None:
    topic = f"wills/{level}"
    with mqtt(broker, level=level) as reader:
        reader.subscribe(f"{topic}/+")
        will = Will(topic=f"{topic}/lost", payload=b"x", qos=1)
        with (
            mqtt(broker, f"taken{level}", level, will=will) as one,
            mqtt(broker, f"taken{level}", level) as other,
        ):
            codes = [each.code for each in one.ended() if isinstance(each, Disconnect)]
            assert codes == ([Reason.TAKEN_OVER] if level == 5 else [])
            assert other.silent()
        assert reader.messages(1) == [(f"{topic}/lost", b"x", 1, False)]
        with mqtt(broker, "polite", level, will=Will(topic=f"{topic}/polite", payload=b"x")) as one:
            one.disconnect()
        with MqttPeer(broker.ready["mqtt"][0], level) as one:
            one.connect("rude", will=Will(topic=f"{topic}/rude", payload=b"x", retain=True))
        assert reader.messages(1) == [(f"{topic}/rude", b"x", 0, False)]


def test_who_comes_back_is_sent_again_no_more_than_it_takes(broker: Sidecar) -> None:
    with mqtt(broker, "again", properties={"session_expiry": 60}) as one, mqtt(broker) as other:
        one.subscribe("again/a")
        for payload in ("1", "2" * 200, "3", "4", "5"):
            other.publish("again/a", payload)
        first = [one.message(acknowledge=False) for _ in range(5)]
    back = {"session_expiry": 60, "receive_maximum": 2, "maximum_packet_size": 100}
    with mqtt(broker, "again", clean=False, properties=back) as one, mqtt(broker) as other:
        other.publish("again/a", "6")
        again = [one.message(acknowledge=False) for _ in range(2)]
        assert one.silent()
        for found in again:
            one.send(Ack(type=Type.PUBACK, packet_id=found.packet_id))
        again += [one.message(), one.message()]
        assert [(found.packet_id, found.dup) for found in again] == [(first[n].packet_id, True) for n in (0, 2, 3, 4)]
        found = one.message()
        assert (found.dup, found.payload) == (False, b"6")


def test_what_is_sent_again_may_be_much() -> None:
    with Sidecar(listen=LISTEN, outbox_bytes_max=16 << 20) as sidecar:
        address = sidecar.ready["mqtt"][0]
        with mqtt(sidecar, "much", properties={"session_expiry": 60}) as one, mqtt(sidecar) as other:
            one.subscribe("much")
            for _ in range(15):
                other.publish("much", b"x" * (1 << 20))
            for _ in range(15):
                one.message(acknowledge=False)
        with MqttPeer(address, receive_bytes=4096) as one:
            one.send(ConnectPacket(level=5, client_id="much", clean=False, properties={"session_expiry": 60}))
            one.receive(Connack)
            one.send(Pingreq())
            for _ in range(15):
                assert one.message(acknowledge=False).dup
            one.receive(Pingresp)


def test_what_was_not_stored_before_the_connection_ended_is_stored_when_it_comes_again() -> None:
    who = {"user": "x", "password": b"ann", "properties": {"session_expiry": 60}}
    again = PublishPacket(topic="twice", payload=b"x", qos=2, packet_id=1)
    with (
        Sidecar(listen=LISTEN, mode="custom", hook_seconds=10) as sidecar,
        Answering(sidecar.control, named) as hook,
        mqtt(sidecar, "ear", user="x", password=b"bob") as ear,
    ):
        ear.subscribe("twice")
        with mqtt(sidecar, "mouth", **who) as one:
            hook.rule = lambda question: None
            one.send(again)
            hook.wait("publish")
        hook.rule = named
        with mqtt(sidecar, "mouth", clean=False, **who) as one:
            for _ in range(2):
                one.send(PublishPacket(topic="twice", payload=b"x", qos=2, packet_id=1, dup=True))
                assert one.receive(Ack) == Ack(type=Type.PUBREC, packet_id=1)
            one.send(Ack(type=Type.PUBREL, packet_id=1))
            assert one.receive(Ack) == Ack(type=Type.PUBCOMP, packet_id=1)
        assert ear.messages(1) == [("twice", b"x", 1, False)]
        assert ear.silent()


def test_a_session_goes_on_as_soon_as_the_hook_has_let_its_client_in() -> None:
    who = {"user": "x", "password": b"ann", "properties": {"session_expiry": 60}}
    with Sidecar(listen=LISTEN, mode="custom", hook_seconds=3) as sidecar, Answering(sidecar.control, named):
        with mqtt(sidecar, "ear", **who) as one:
            one.subscribe("hook/a", "hook/b")
            one.publish("hook/b", "first")
            first = one.message(acknowledge=False)
        with mqtt(sidecar, user="x", password=b"bob") as other:
            other.publish("hook/a", "x")
        with mqtt(sidecar, "ear", clean=False, **who) as one:
            found = sorted((one.message() for _ in range(2)), key=lambda each: each.topic)
            assert [(each.topic, each.payload, each.dup) for each in found] == [
                ("hook/a", b"x", False),
                ("hook/b", b"first", True),
            ]
            assert found[1].packet_id == first.packet_id


def test_nothing_is_sent_again_whose_right_has_ended() -> None:
    who = {"user": "x", "properties": {"session_expiry": 60}}
    with ruled(rule(1, "/stocks/*"), rule(2, "/orders/*"), listen=LISTEN) as rules, rules.publisher() as publisher:
        token = mint("alice", generation=rules.generation).encode()
        with mqtt(rules.sidecar, "a", password=token, **who) as one:
            one.subscribe("/stocks/a", "/orders/a")
            publisher.publish(["/stocks/a", "1"], ["/orders/a", "2"])
            assert [one.message(acknowledge=False).payload for _ in range(2)] == [b"1", b"2"]
        rules.change(removed=[1])
        with mqtt(rules.sidecar, "a", clean=False, password=token, **who) as one:
            found = one.message()
            assert (found.topic, found.payload, found.dup) == ("/orders/a", b"2", True)
            assert one.silent()


@pytest.mark.parametrize("level", [pytest.param(4, marks=pytest.mark.slow), 5])
def test_a_session_outlasts_a_restart(tmp_path: Path, level: int) -> None:
    """With its subscriptions, what was under way under its packet ids, and what came since; nothing comes twice."""
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "ear", level, **lasting(level)) as ear, mqtt(sidecar, level=level) as mouth:
            ear.subscribe("kept/+", Filter(text="plain/#", qos=0))
            for payload in ("1", "2", "3"):
                mouth.publish("kept/a", payload)
            mouth.publish("plain/a", "x", retain=True)
            found = [ear.message(acknowledge=False) for _ in range(4)]
            assert [one.payload for one in found] == [b"1", b"2", b"3", b"x"]
            ear.send(Ack(type=Type.PUBACK, packet_id=found[1].packet_id))
            assert ear.silent()
        with mqtt(sidecar, level=level) as mouth:
            mouth.publish("kept/a", "4")
        for _ in range(level - 3):  # what was not used is there the next time, too
            sidecar.stop()
            sidecar.start()
        with mqtt(sidecar, level=level) as mouth:
            mouth.publish("kept/b", "5")
        with MqttPeer(sidecar.ready["mqtt"][0], level) as ear:
            assert ear.connect("ear", **lasting(level)).session_present
            again = [ear.message() for _ in range(4)]
            told = {(one.topic, one.payload, one.dup, one.packet_id if one.dup else 0) for one in again}
            assert told == {
                ("kept/a", b"1", True, found[0].packet_id),
                ("kept/a", b"3", True, found[2].packet_id),
                ("kept/a", b"4", False, 0),
                ("kept/b", b"5", False, 0),
            }
            assert [one.payload for one in again if one.topic == "kept/a"] == [b"1", b"3", b"4"]
            with mqtt(sidecar, level=level) as mouth:
                mouth.publish("plain/b", "y")
            assert ear.messages(1) == [("plain/b", b"y", 0, False)]
            assert ear.silent()


def test_a_session_outlasts_a_crash_and_misses_nothing(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "ear", **lasting()) as ear, mqtt(sidecar) as mouth:
            ear.subscribe(Filter(text="crash/+", qos=1, no_local=True), subscription_identifier=7)
            kept(sidecar, 1)
            mouth.publish("crash/a", "1")
            assert ear.message().payload == b"1"
            mouth.publish("crash/a", "2")
            ear.message(acknowledge=False)
            sidecar.kill()
        sidecar.start()
        with mqtt(sidecar) as mouth:
            mouth.publish("crash/a", "3")
        with MqttPeer(sidecar.ready["mqtt"][0]) as ear:
            assert ear.connect("ear", **lasting()).session_present
            found = [ear.message()]
            while found[-1].payload != b"3":
                found.append(ear.message())
            payloads = [one.payload for one in found]
            assert payloads in ([b"2", b"3"], [b"1", b"2", b"3"])  # the first may have been written as read, or not
            assert all(one.properties["subscription_identifier"] == [7] for one in found)
            assert ear.publish("crash/own", "x") == 0
            assert ear.silent()


@pytest.mark.slow
def test_a_session_that_has_ended_is_not_there_after_a_restart(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        for name in ("clean", "left", "stays"):
            with mqtt(sidecar, name, **lasting()) as one:
                one.subscribe("ended/a")
        kept(sidecar, 3)
        with mqtt(sidecar, "clean"):
            pass
        with mqtt(sidecar, "left", **lasting()) as one:
            one.disconnect(properties={"session_expiry": 0})
        kept(sidecar, 1)
        sidecar.kill()
        sidecar.start()
        for name, there in (("clean", False), ("left", False), ("stays", True)):
            with MqttPeer(sidecar.ready["mqtt"][0]) as one:
                assert one.connect(name, **lasting()).session_present is there


@pytest.mark.slow
def test_the_time_of_a_session_goes_on_while_the_sidecar_is_away(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        for name, seconds in (("short", 2), ("long", 600)):
            with mqtt(sidecar, name, clean=False, properties={"session_expiry": seconds}) as one:
                one.subscribe("time/a")
        sidecar.stop()
        over = time.time() + 3
        until(lambda: time.time() > over)
        sidecar.start()
        kept(sidecar, 1)
        for name, there in (("short", False), ("long", True)):
            with MqttPeer(sidecar.ready["mqtt"][0]) as one:
                assert one.connect(name, **lasting()).session_present is there


@pytest.mark.slow
def test_what_the_log_has_no_more_is_told_after_a_restart(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path, cache_messages=2) as sidecar:
        with mqtt(sidecar, "ear", **lasting()) as ear, mqtt(sidecar) as mouth:
            ear.subscribe("short/+")
            mouth.publish("short/a", "0", retain=True)
            first = ear.message(acknowledge=False)
            for payload in ("1", "2", "3", "4"):
                mouth.publish("short/a", payload, retain=True)
                ear.message()
            assert ear.silent()  # the last acknowledgement has arrived
        sidecar.stop()
        sidecar.start()
        with MqttPeer(sidecar.ready["mqtt"][0]) as ear, mqtt(sidecar) as mouth:
            assert ear.connect("ear", **lasting()).session_present
            assert ear.messages(1) == [("short/a", b"4", 1, True)]
            with Control(sidecar.control) as control:
                assert control.stats()["resynchronisations"] == 1
            mouth.publish("short/a", "5")
            found = ear.message()
            assert (found.payload, found.dup) == (b"5", False)
            assert found.packet_id != first.packet_id  # which may still be in the client's hands
            assert ear.silent()


@pytest.mark.slow
def test_what_a_client_has_published_is_stored_once_over_a_restart(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "mouth", **lasting()) as mouth:
            assert mouth.publish("twice/a", "1", packet_id=9) == 0
            mouth.send(PublishPacket(topic="twice/a", payload=b"2", qos=2, packet_id=10))
            assert mouth.receive(Ack) == Ack(type=Type.PUBREC, packet_id=10)
        sidecar.stop()
        sidecar.start()
        with mqtt(sidecar, "mouth", **lasting()) as mouth, mqtt(sidecar) as ear:
            ear.subscribe("twice/a")
            assert mouth.publish("twice/a", "1", packet_id=9, dup=True) == 0
            mouth.send(PublishPacket(topic="twice/a", payload=b"2", qos=2, packet_id=10, dup=True))
            assert mouth.receive(Ack) == Ack(type=Type.PUBREC, packet_id=10)
            mouth.send(Ack(type=Type.PUBREL, packet_id=10))
            assert mouth.receive(Ack) == Ack(type=Type.PUBCOMP, packet_id=10)
            assert mouth.publish("twice/a", "3", packet_id=10) == 0
            assert ear.messages(1) == [("twice/a", b"3", 1, False)]
            assert ear.silent()


@pytest.mark.slow
def test_what_is_published_after_a_crash_is_no_repetition_of_what_was_before(tmp_path: Path) -> None:
    """Or it would be acknowledged, and not stored: what the session had numbered last was not written."""
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "mouth", **lasting()) as mouth:
            kept(sidecar, 1)
            for number in range(3):
                assert mouth.publish("new/a", str(number)) == 0
            sidecar.kill()
        sidecar.start()
        with mqtt(sidecar, "mouth", **lasting()) as mouth, mqtt(sidecar) as ear:
            ear.subscribe("new/a")
            for number in range(3):
                assert mouth.publish("new/a", f"new {number}") == 0
            assert [payload for _, payload, _, _ in ear.messages(3)] == [b"new 0", b"new 1", b"new 2"]


@pytest.mark.slow
def test_a_member_of_a_group_is_one_after_a_restart(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "member", **lasting()) as member:
            member.subscribe("$share/g/jobs/+")
        sidecar.stop()
        sidecar.start()
        with mqtt(sidecar) as mouth:
            mouth.publish("jobs/a", "x")
        with mqtt(sidecar, "member", **lasting()) as member:
            assert member.messages(1) == [("jobs/a", b"x", 1, False)]


@pytest.mark.slow
def test_what_a_member_had_not_acknowledged_before_a_restart_is_another_ones_when_it_ends(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "gone", **lasting()) as gone, mqtt(sidecar) as mouth:
            gone.subscribe("$share/g/jobs/+")
            mouth.publish("jobs/a", "taken")
            assert gone.message(acknowledge=False).payload == b"taken"
        sidecar.stop()
        sidecar.start()
        with mqtt(sidecar, "member", **lasting()) as member:
            member.subscribe("$share/g/jobs/+")
            assert member.silent()
            with mqtt(sidecar, "gone"):  # which begins anew
                assert member.messages(1) == [("jobs/a", b"taken", 1, False)]


def test_damaged_files_cost_the_sessions_and_nothing_else(tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path) as sidecar:
        with mqtt(sidecar, "ear", **lasting()) as ear:
            ear.subscribe("damaged/a")
            ear.publish("damaged/a", "x", retain=True)
            ear.message()
        kept(sidecar, 1)
        sidecar.kill()
        for path in (tmp_path / "sessions").iterdir():
            data = bytearray(path.read_bytes())
            data[40] ^= 0xFF
            path.write_bytes(data)
        sidecar.start()
        with MqttPeer(sidecar.ready["mqtt"][0]) as ear:
            assert not ear.connect("ear", **lasting()).session_present
            ear.subscribe("damaged/a")
            assert ear.messages(1) == [("damaged/a", b"x", 1, True)]
        assert "the sessions of MQTT clients are lost" in sidecar.log
        assert (tmp_path / "sessions.aside").is_dir()
        kept(sidecar, 1)
