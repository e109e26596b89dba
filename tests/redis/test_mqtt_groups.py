"""Shared subscriptions over nodes of one Redis: each message has one taker, whichever nodes the members are on."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt, taken
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
    """Two nodes, each test with topics of its own."""
    with Sidecar(engine=server.url, listen=LISTEN) as one, Sidecar(engine=server.url, listen=LISTEN) as other:
        yield one, other
        assert "Traceback" not in one.log + other.log, one.log + other.log


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Connections that end with the test."""
    with ExitStack() as found:
        yield found


def each_has_one(had: list[list[tuple[str, int]]], count: int) -> bool:
    """Whether all have arrived, in the order of each topic for each member; AssertionError if one came twice, which it
    may where a node that is very slow is taken for dead."""
    counts = Counter(number for mine in had for _, number in mine)
    assert max(counts.values(), default=1) == 1, f"taken twice: {[key for key, n in counts.items() if n > 1]}"
    for mine in had:
        for topic in {topic for topic, _ in mine}:
            order = [number for at, number in mine if at == topic]
            held(order == sorted(order), f"out of order: {order}")
    return len(counts) == count


def member(stack: ExitStack, node: Sidecar, name: str, topic: str, qos: int = 1, **connect: Any) -> MqttPeer:
    """A member of the crew that shares the topic."""
    peer = stack.enter_context(MqttPeer(node.ready["mqtt"][0]))
    assert peer.connect(name, **connect).code == 0
    assert peer.subscribe(f"$share/crew/{topic}", qos=qos) == [qos]
    return peer


@pytest.mark.parametrize("qos", [0, 1])
def test_each_message_has_one_taker_over_all_nodes(nodes: tuple[Sidecar, Sidecar], stack: ExitStack, qos: int) -> None:
    """From the first one on, and both nodes have their share before long."""
    topic = f"over/{qos}"
    places = [(number, at, node) for number in (0, 1) for at, node in enumerate(nodes)]
    crew = [member(stack, node, f"{qos}{at}{number}", f"{topic}/+", qos) for number, at, node in places]
    mouth = stack.enter_context(mqtt(nodes[0]))
    had: list[list[tuple[str, int]]] = [[] for _ in crew]
    count = 0

    def collect() -> None:
        for mine, peer in zip(had, crew, strict=True):
            mine += taken(peer)

    def all_had() -> bool:
        collect()
        return each_has_one(had, count)

    def both_share() -> bool:
        """Some more, as long as a node takes nothing."""
        nonlocal count
        for _ in range(20):
            mouth.publish(f"{topic}/{count % 2}", str(count), qos)
            count += 1
        return until(all_had) and all(had[at] or had[at + 2] for at in (0, 1))

    until(both_share, 30)
    for _ in range(100):
        mouth.publish(f"{topic}/{count % 2}", str(count), qos)
        count += 1
    until(all_had, 30)
    collect()
    assert each_has_one(had, count)


def test_of_a_node_that_dies_what_was_not_acknowledged_is_the_others(server: RedisServer, stack: ExitStack) -> None:
    """Nothing is missing; what comes twice is what the dead one had."""
    with Sidecar(engine=server.url, listen=LISTEN) as one, Sidecar(engine=server.url, listen=LISTEN) as other:
        mouth = stack.enter_context(mqtt(one))
        lives, dies = member(stack, one, "lives", "dies"), member(stack, other, "dies", "dies")
        count, mine, theirs = 0, [], []

        def shared() -> bool:
            nonlocal count
            for _ in range(10):
                mouth.publish("dies", str(count))
                count += 1
            mine.extend(taken(lives))
            theirs.extend(taken(dies, acknowledge=False))
            return len(theirs) > 3

        until(shared, 30)
        os.kill(other.pid, signal.SIGKILL)
        for _ in range(20):
            mouth.publish("dies", str(count))
            count += 1

        def all_had() -> bool:
            mine.extend(taken(lives))
            return {number for _, number in mine} == set(range(count))

        until(all_had, 30)
        held(len(mine) == count, "taken twice by one member")


def test_who_comes_back_to_another_node_gets_nothing_that_others_have_taken(
    nodes: tuple[Sidecar, Sidecar], stack: ExitStack
) -> None:
    one, other = nodes
    mouth = stack.enter_context(mqtt(one))
    stays, roams = member(stack, one, "stays", "roams"), member(stack, other, "roams", "roams", **LASTS)
    roams.disconnect()
    mine: list[tuple[str, int]] = []
    for number in range(20):
        mouth.publish("roams", str(number))
    until(lambda: len(mine.__iadd__(taken(stays))) >= 20)
    assert each_has_one([mine], 20)
    roams = stack.enter_context(MqttPeer(one.ready["mqtt"][0]))
    held(roams.connect("roams", **LASTS).session_present, "no session")
    for number in range(20, 40):
        mouth.publish("roams", str(number))
    theirs: list[tuple[str, int]] = []

    def all_had() -> bool:
        mine.extend(taken(stays))
        theirs.extend(taken(roams))
        return each_has_one([mine, theirs], 40)

    until(all_had)
