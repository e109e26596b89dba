"""Shared subscriptions over workers: each message has one taker, whichever workers the members are on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt, taken, worker_of
from tests.support.edge.rules import rule, ruled
from tests.support.edge.spread import kill_worker
from tests.support.promises import BrokenPromise
from tests.support.promises import kept as held
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

WORKERS = 2
TRIES = 200


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """A sidecar of two workers for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN, workers=WORKERS) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Connections that end with the test."""
    with ExitStack() as found:
        yield found


def on_worker(
    sidecar: Sidecar, stack: ExitStack, number: int, name: str, level: int = 5, **connect: object
) -> MqttPeer:
    """A client on that worker, where the kernel brings it sooner or later."""
    for _ in range(TRIES):
        peer = MqttPeer(sidecar.ready["clients"][0], level, websocket=True)
        assert peer.connect(name, **connect).code == 0
        if worker_of(sidecar, name) == number:
            return stack.enter_context(peer)
        peer.disconnect()
        peer.__exit__()
    raise AssertionError("the kernel gave that worker no connection")


def each_has_one(had: list[list[tuple[str, int]]], count: int) -> bool:
    """Whether all have arrived, in the order of each topic for each member; raises BrokenPromise if one came twice."""
    counts = Counter(number for mine in had for _, number in mine)
    held(max(counts.values(), default=1) == 1, f"taken twice: {[key for key, n in counts.items() if n > 1]}")
    for mine in had:
        for topic in {topic for topic, _ in mine}:
            order = [number for at, number in mine if at == topic]
            held(order == sorted(order), f"out of order: {order}")
    return len(counts) == count


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("pace", ["one by one", "at once"])
def test_each_message_has_one_taker_over_all_workers(node: Sidecar, stack: ExitStack, qos: int, pace: str) -> None:
    topic = f"over/{qos}/{pace.partition(' ')[0]}"
    members = [stack.enter_context(mqtt(node, f"{topic}first"))]
    members += [on_worker(node, stack, number, f"{topic}{number}{level}", level) for number, level in ((1, 5), (1, 4))]
    members.append(on_worker(node, stack, 0, f"{topic}last"))
    mouth = stack.enter_context(mqtt(node))
    for member in members:
        assert member.subscribe(f"$share/crew/{topic}/+", qos=qos) == [qos]
    had: list[list[tuple[str, int]]] = [[] for _ in members]

    def collect() -> None:
        for mine, member in zip(had, members, strict=True):
            mine += taken(member)

    count = 120
    for number in range(count):
        mouth.publish(f"{topic}/{number % 2}", str(number), qos if pace == "at once" else number % 2)
        if pace == "one by one" and number % 10 == 9:
            collect()

    def all_had() -> bool:
        collect()
        return each_has_one(had, count)

    until(all_had, 30)
    collect()
    assert each_has_one(had, count)
    assert all(had), [len(mine) for mine in had]


def test_what_a_member_leaves_behind_is_anothers_on_whichever_worker(node: Sidecar, stack: ExitStack) -> None:
    """QoS 1, not acknowledged: for who is there, and where nobody is, for who comes."""
    mouth = stack.enter_context(mqtt(node))
    for leaves, goes_on in ((0, 1), (1, 0), (1, 1)):
        topic = f"left/{leaves}{goes_on}"
        one = on_worker(node, stack, leaves, f"{topic}one")
        one.subscribe(f"$share/crew/{topic}")
        for number in range(30):
            mouth.publish(topic, str(number))
        until(lambda one=one: one.silent() is False)
        had: list[tuple[str, int]] = []
        until(lambda one=one, had=had: len(had.__iadd__(taken(one, acknowledge=False))) == 30)
        one.disconnect()
        other = on_worker(node, stack, goes_on, f"{topic}other")
        other.subscribe(f"$share/crew/{topic}")
        mouth.publish(topic, "30")
        found: list[tuple[str, int]] = []
        with_more = until(lambda other=other, found=found: len(found.__iadd__(taken(other))) >= 1)
        assert with_more
        assert found[-1] == (topic, 30)


def test_who_is_there_gets_what_another_has_left(node: Sidecar, stack: ExitStack) -> None:
    mouth = stack.enter_context(mqtt(node))
    for leaves, stays in ((0, 1), (1, 0), (1, 1)):
        topic = f"stays/{leaves}{stays}"
        one = on_worker(node, stack, leaves, f"{topic}one", properties={"receive_maximum": 5})
        other = on_worker(node, stack, stays, f"{topic}other")
        for member in (one, other):
            member.subscribe(f"$share/crew/{topic}")
        for number in range(40):
            mouth.publish(topic, str(number))
        had: list[tuple[str, int]] = []
        until(lambda other=other, had=had: len(had.__iadd__(taken(other))) >= 35)
        kept = taken(one, acknowledge=False)
        assert each_has_one([had, kept], 40)
        one.sock.close()
        until(lambda other=other, had=had: len(had.__iadd__(taken(other))) >= 40)
        assert sorted(number for _, number in had) == list(range(40))


def test_only_who_may_read_takes_anything_on_any_worker() -> None:
    rules = (rule(1, "/jobs/**"), rule(2, "/jobs/secret", "user:bob", allow=False), rule(3, "/jobs/**", "user:bob"))
    with ruled(*rules, listen=LISTEN, workers=WORKERS) as rights, rights.publisher() as mouth, ExitStack() as stack:
        for where in ((0, 1), (1, 0), (1, 1)):
            members = []
            for user, worker in zip(("alice", "bob"), where, strict=True):
                token = mint(user, generation=rights.generation).encode()
                name = f"{user}{where[0]}{where[1]}"
                members.append(on_worker(rights.sidecar, stack, worker, name, user=user, password=token))
                assert members[-1].subscribe("$share/crew//jobs/+") == [1]
            for number in range(10):
                mouth.publish(["/jobs/secret", str(number)])
            assert [payload for _, payload, _, _ in members[0].messages(10)] == [b"%d" % one for one in range(10)]
            if not members[1].silent():
                raise BrokenPromise("sent without a right")
            for member in members:
                member.disconnect()


@pytest.mark.slow
def test_a_group_goes_on_when_a_worker_dies(stack: ExitStack) -> None:
    """What a member there had not acknowledged is the others'; when the first one dies nothing is missing either."""
    with Sidecar(listen=LISTEN, workers=WORKERS) as sidecar:
        one = on_worker(sidecar, stack, 1, "one", properties={"receive_maximum": 10})
        other = stack.enter_context(mqtt(sidecar, "other"))
        for member in (one, other):
            member.subscribe("$share/crew/dies")
        with mqtt(sidecar) as mouth:
            for number in range(60):
                mouth.publish("dies", str(number))
        had: list[tuple[str, int]] = []
        until(lambda: len(had.__iadd__(taken(other))) >= 50)
        kill_worker(sidecar, 1, WORKERS)
        until(lambda: {number for _, number in had.__iadd__(taken(other))} == set(range(60)))
        third = on_worker(sidecar, stack, 1, "third")
        third.subscribe("$share/crew/dies")
        kill_worker(sidecar, 0, WORKERS)
        found: list[tuple[str, int]] = []
        with mqtt(sidecar) as mouth:
            for number in range(60, 100):
                mouth.publish("dies", str(number))
        until(lambda: {number for _, number in found.__iadd__(taken(third))} == set(range(60, 100)))
        each_has_one([found], 40)
