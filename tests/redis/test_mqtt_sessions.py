"""Sessions of MQTT clients over nodes that share a Redis: a client finds its session wherever it comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.mqtt.packets import Ack, Disconnect, PublishPacket, Type, Will
from fastpath.core.mqtt.reasons import V3, V5, Reason
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.promises import kept as held
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis

LASTS: dict[str, Any] = {"clean": False, "properties": {"session_expiry": 600}}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Redis for all tests of this module."""
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="module")
def nodes(server: RedisServer) -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two nodes, each test with clients of its own."""
    with Sidecar(engine=server.url, listen=LISTEN) as one, Sidecar(engine=server.url, listen=LISTEN) as other:
        yield one, other
        assert "Traceback" not in one.log + other.log, one.log + other.log


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Connections that end with the test."""
    with ExitStack() as found:
        yield found


def lasting(level: int) -> dict[str, Any]:
    """What CONNECT says for a session that lasts."""
    return LASTS if level == V5 else {"clean": False}


def come(stack: ExitStack, node: Sidecar, name: str, level: int = V5, **connect: Any) -> tuple[MqttPeer, bool]:
    """A client there, and whether its session was present."""
    peer = stack.enter_context(MqttPeer(node.ready["mqtt"][0], level))
    answer = peer.connect(name, **(connect or lasting(level)))
    assert answer.code == 0
    return peer, answer.session_present


def figure(node: Sidecar, name: str) -> float:
    with Control(node.control) as control:
        return float(control.stats()[name])


def unsaved(node: Sidecar) -> float:
    return figure(node, "mqtt_sessions_unsaved")


@pytest.mark.parametrize("level", [V3, V5])
def test_a_session_is_there_on_another_node(nodes: tuple[Sidecar, Sidecar], stack: ExitStack, level: int) -> None:
    """With its subscriptions, and all that came since, once each and in order."""
    one, other = nodes
    topic, name = f"there/{level}", f"there{level}"
    mouth = stack.enter_context(mqtt(one))
    peer, present = come(stack, one, name, level)
    assert not present
    peer.subscribe(topic, f"{topic}/#")
    mouth.publish(topic, "0")
    assert peer.message().payload == b"0"
    peer.disconnect()
    for number, node in enumerate((other, other, one, other), 1):
        for at in range(3):
            mouth.publish(topic, f"{number} {at}")
        peer, present = come(stack, node, name, level)
        held(present, f"no session in turn {number}")
        found = [peer.message().payload.decode() for _ in range(3)]
        held(found == [f"{number} {at}" for at in range(3)], f"in turn {number}: {found}")
        assert peer.silent()
        peer.disconnect()


@pytest.mark.parametrize("level", [V3, V5])
def test_a_client_that_comes_elsewhere_is_cut_off_where_it_was(
    nodes: tuple[Sidecar, Sidecar], stack: ExitStack, level: int
) -> None:
    """What it has not acknowledged comes again, under its packet id; nothing else does."""
    one, other = nodes
    topic, name = f"cut/{level}", f"cut{level}"
    mouth = stack.enter_context(mqtt(other))
    before, _ = come(stack, one, name, level)
    before.subscribe(topic)
    for number in range(4):
        mouth.publish(topic, str(number))
    sent = [before.message(acknowledge=False) for _ in range(4)]
    for packet in sent[:2]:
        before.send(Ack(type=Type.PUBACK, packet_id=packet.packet_id))
    assert before.silent()
    after, present = come(stack, other, name, level)
    held(present, "no session")
    codes = [packet.code for packet in before.ended() if isinstance(packet, Disconnect)]
    assert codes == ([Reason.TAKEN_OVER] if level == V5 else [])
    again = [after.message() for _ in range(2)]
    assert [(one.payload, one.packet_id, one.dup) for one in again] == [
        (one.payload, one.packet_id, True) for one in sent[2:]
    ]
    mouth.publish(topic, "4")
    assert after.message().payload == b"4"
    assert after.silent()


def test_who_begins_anew_ends_the_session_on_every_node(nodes: tuple[Sidecar, Sidecar], stack: ExitStack) -> None:
    """Also where it is connected, and also if it does not last."""
    one, other = nodes
    before, _ = come(stack, one, "anew")
    before.subscribe("anew")
    after, present = come(stack, other, "anew", clean=True)
    assert not present
    assert [packet.code for packet in before.ended() if isinstance(packet, Disconnect)] == [Reason.TAKEN_OVER]
    third, present = come(stack, one, "anew", clean=True)
    assert not present
    assert [packet.code for packet in after.ended() if isinstance(packet, Disconnect)] == [Reason.TAKEN_OVER]
    third.disconnect()
    for node in nodes:
        peer, present = come(stack, node, "anew", clean=False)
        assert not present
        peer.disconnect()


def test_of_a_node_that_dies_the_session_is_as_it_was_written_last(server: RedisServer, stack: ExitStack) -> None:
    """What was sent since then comes again, and nothing is missing; its publications are not taken for repetitions."""
    with (
        Sidecar(engine=server.url, listen=LISTEN) as other,
        mqtt(other) as mouth,
        Sidecar(engine=server.url, listen=LISTEN) as one,
    ):
        peer, _ = come(stack, one, "dies")
        peer.subscribe("dies/+")
        listens = stack.enter_context(mqtt(other))
        listens.subscribe("said")
        for number in range(3):
            peer.publish("said", str(number))
        until(lambda: not unsaved(one))
        for number in range(20):
            mouth.publish(f"dies/{number % 2}", str(number))
        had = [peer.message().payload for _ in range(20)]
        os.kill(one.pid, signal.SIGKILL)
        for number in range(20, 30):
            mouth.publish(f"dies/{number % 2}", str(number))
        peer, present = come(stack, other, "dies")
        held(present, "no session")
        found = [peer.message()]
        while found[-1].payload != b"29":
            found.append(peer.message())
        for topic in ("dies/0", "dies/1"):
            mine = [int(one.payload) for one in found if one.topic == topic]
            held(mine == sorted(set(mine)), f"order: {mine}")
        missing = {b"%d" % number for number in range(30)} - set(had) - {one.payload for one in found}
        held(not missing, f"missing: {missing}")
        for number in range(3, 6):
            peer.publish("said", str(number))
        held([listens.message().payload for _ in range(6)] == [b"%d" % one for one in range(6)], "said")


def test_a_node_that_stands_still_is_not_waited_for_and_lets_go(
    nodes: tuple[Sidecar, Sidecar], stack: ExitStack
) -> None:
    one, other = nodes
    peer, _ = come(stack, one, "still")
    peer.subscribe("still")
    until(lambda: not unsaved(one))
    os.kill(one.pid, signal.SIGSTOP)
    try:
        after, present = come(stack, other, "still")
        held(present, "no session")
    finally:
        os.kill(one.pid, signal.SIGCONT)
    assert [packet.code for packet in peer.ended() if isinstance(packet, Disconnect)] == [Reason.TAKEN_OVER]
    with mqtt(one) as mouth:
        mouth.publish("still", "x")
    assert after.message().payload == b"x"


def test_a_node_that_stops_leaves_its_sessions_to_the_others(server: RedisServer, stack: ExitStack) -> None:
    """Exactly, also what of QoS 2 is under way and what was published with which packet id."""
    with Sidecar(engine=server.url, listen=LISTEN) as other, mqtt(other) as mouth:
        with Sidecar(engine=server.url, listen=LISTEN) as one:
            peer, _ = come(stack, one, "stops")
            peer.subscribe("stops")
            mouth.publish("stops", "0")
            assert peer.message().payload == b"0"
            peer.send(PublishPacket(topic="stopped", payload=b"once", qos=1, packet_id=7))
            peer.receive(Ack)
        mouth.publish("stops", "1")
        listens = stack.enter_context(mqtt(other))
        listens.subscribe("stopped")
        peer, present = come(stack, other, "stops")
        held(present, "no session")
        assert peer.message().payload == b"1"
        peer.send(PublishPacket(topic="stopped", payload=b"once", qos=1, packet_id=7, dup=True))
        peer.receive(Ack)
        held(listens.silent(), "stored twice")
        assert peer.silent()


def test_a_session_that_has_expired_is_on_no_node(
    server: RedisServer, nodes: tuple[Sidecar, Sidecar], stack: ExitStack
) -> None:
    one, other = nodes
    peer, _ = come(stack, one, "ends", clean=False, properties={"session_expiry": 1})
    assert server.call("EXISTS", "fastpath:mqtt:0::ends")
    peer.disconnect()
    until(lambda: not server.call("EXISTS", "fastpath:mqtt:0::ends"))
    _, present = come(stack, other, "ends")
    held(not present, "it is there")


def test_a_will_goes_with_the_session(nodes: tuple[Sidecar, Sidecar], stack: ExitStack) -> None:
    """It waits where the session is, and is void once the client is back in time, on whichever node."""
    one, other = nodes
    listens = stack.enter_context(mqtt(other))
    listens.subscribe("willed/+")
    for delay, name in ((600, "late"), (0, "now")):
        will = Will(topic=f"willed/{name}", payload=b"gone", qos=1, properties={"will_delay": delay})
        peer, _ = come(stack, one, f"wills{name}", will=will, **LASTS)
        peer.sock.close()
        if not delay:
            assert listens.message().topic == "willed/now"
        peer, present = come(stack, other, f"wills{name}")
        held(present, "no session")
        peer.disconnect()
    held(listens.silent(), "a will is published though its client is back")


@pytest.mark.slow
def test_a_client_of_any_worker_finds_its_session_on_any_worker_of_another_node(
    server: RedisServer, stack: ExitStack
) -> None:
    """Back and forth over the client ports, where the kernel chooses the worker."""
    with (
        Sidecar(engine=server.url, listen=LISTEN, workers=2) as one,
        Sidecar(engine=server.url, listen=LISTEN, workers=2) as other,
        mqtt(one) as mouth,
    ):
        before: MqttPeer | None = None
        for turn in range(12):
            node = (one, other)[turn % 2]
            peer = stack.enter_context(MqttPeer(node.ready["clients"][0], websocket=True))
            answer = peer.connect("roams", **LASTS)
            assert answer.code == 0
            if before is None:
                peer.subscribe("roams")
            else:
                held(answer.session_present, f"no session in turn {turn}")
                assert [one.code for one in before.ended() if isinstance(one, Disconnect)] == [Reason.TAKEN_OVER]
                again = peer.message(acknowledge=False)
                held(again.dup and again.payload == b"0", f"{again} in turn {turn}")
            mouth.publish("roams", str(turn))
            found = peer.message(acknowledge=turn > 0)
            held(found.payload == str(turn).encode(), f"{found.payload!r} in turn {turn}")
            before = peer


def test_while_redis_is_away_who_may_have_a_session_elsewhere_is_told_to_come_again(stack: ExitStack) -> None:
    """Who has it here goes on, and so does who begins anew."""
    with RedisServer() as server, Sidecar(engine=server.url, listen=LISTEN) as node:
        peer, _ = come(stack, node, "here")
        peer.subscribe("here")
        peer.disconnect()
        until(lambda: not unsaved(node))
        server.kill()
        _, present = come(stack, node, "here")
        held(present, "no session")
        come(stack, node, "anew", clean=True)
        other = stack.enter_context(MqttPeer(node.ready["mqtt"][0]))
        assert other.connect("elsewhere", **LASTS).code == Reason.SERVER_BUSY
