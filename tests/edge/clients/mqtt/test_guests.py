"""With several workers the session of an MQTT client is found from each of them, and outlasts any one's death."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from fastpath.client.control.client import Control
from fastpath.core.mqtt.packets import Connack, Disconnect, Will
from fastpath.core.mqtt.reasons import Reason
from tests.support.edge.mqtt import LISTEN, MqttPeer, kept, mqtt, worker_of
from tests.support.edge.spread import kill_worker
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

WORKERS = 2
FIRST, OTHER = True, False


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """A sidecar of two workers for all tests of this module that kill none, each with topics of its own."""
    with Sidecar(listen=LISTEN, workers=WORKERS) as running:
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Connections that end with the test."""
    with ExitStack() as found:
        yield found


def come(
    sidecar: Sidecar,
    stack: ExitStack,
    client_id: str,
    to: bool,
    *,
    present: bool,
    clean: bool = False,
    **connect: object,
) -> MqttPeer:
    """The client, connected to the first worker or to the other one; its session has to be ``present``.

    Which worker a connection comes to is the kernel's choice. A client that has come to the wrong one comes again, and
    its session with it.
    """
    for _ in range(200):
        address, websocket = (sidecar.ready["mqtt"][0], False) if to is FIRST else (sidecar.ready["clients"][0], True)
        peer = stack.enter_context(MqttPeer(address, websocket=websocket))
        answer = peer.connect(client_id, clean=clean, properties={"session_expiry": 600}, **connect)
        assert answer.code == 0
        assert answer.session_present is present
        if (worker_of(sidecar, client_id) == 0) is to:
            return peer
        present, clean = True, False
    raise AssertionError("the kernel gave that worker no connection")


def ends(peer: MqttPeer) -> list[int]:
    """What the server says as it ends the connection."""
    return [one.code for one in peer.ended() if isinstance(one, Disconnect)]


def test_a_session_is_found_from_every_worker(node: Sidecar, stack: ExitStack) -> None:
    """With its subscriptions, what is under way under its packet ids, and what came meanwhile; nothing comes twice."""
    mouth = stack.enter_context(mqtt(node))
    ear = come(node, stack, "found", FIRST, present=False)
    ear.subscribe("found/+")
    mouth.publish("found/a", "0")
    first = ear.message(acknowledge=False)
    for number, to in enumerate((OTHER, FIRST, OTHER, OTHER), 1):
        ear.sock.close()
        mouth.publish("found/a", f"{number}")
        ear = come(node, stack, "found", to, present=True)
        again = ear.message(acknowledge=False)
        assert (again.payload, again.dup, again.packet_id) == (b"0", True, first.packet_id)
        assert ear.message().payload == str(number).encode()
        assert ear.silent()  # the acknowledgement has arrived


@pytest.mark.parametrize("to", [FIRST, OTHER], ids=["to-first", "to-other"])
def test_a_connected_client_is_taken_over_from_another_worker(node: Sidecar, stack: ExitStack, to: bool) -> None:
    name = f"over{to}"
    mouth = stack.enter_context(mqtt(node))
    before = come(node, stack, name, not to, present=False)
    before.subscribe(f"{name}/+")
    mouth.publish(f"{name}/a", "1")
    assert before.message().payload == b"1"
    assert before.silent()  # the acknowledgement has arrived
    after = come(node, stack, name, to, present=True)
    assert ends(before) == [Reason.TAKEN_OVER]
    mouth.publish(f"{name}/a", "2")
    assert after.messages(1) == [(f"{name}/a", b"2", 1, False)]
    assert after.publish(f"{name}/a", "3") == 0
    assert after.messages(1) == [(f"{name}/a", b"3", 1, False)]
    assert after.silent()
    fresh = come(node, stack, name, not to, present=False, clean=True)
    assert ends(after) == [Reason.TAKEN_OVER]
    mouth.publish(f"{name}/a", "4")
    assert fresh.silent()


def test_who_comes_to_all_workers_at_once_is_connected_once(node: Sidecar, stack: ExitStack) -> None:
    """Each is answered; those who have come before the session was free are told to come again."""
    answers: list[tuple[MqttPeer, int]] = []

    def come_often(websocket: bool) -> None:
        for _ in range(10):
            peer = stack.enter_context(MqttPeer(node.ready["clients" if websocket else "mqtt"][0], websocket=websocket))
            code = peer.connect("crowd", clean=False, properties={"session_expiry": 600}).code
            answers.append((peer, code))

    crowd = [Thread(target=come_often, args=(bool(number % 2),)) for number in range(6)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert len(answers) == 60
    assert {code for _, code in answers} <= {0, Reason.SERVER_BUSY}
    last = come(node, stack, "crowd", FIRST, present=True)
    assert last.subscribe("crowd/a") == [1]
    for peer, code in answers:
        assert ends(peer) == ([Reason.TAKEN_OVER] if code == 0 else [])
    assert last.silent()


def test_a_session_that_missed_messages_is_not_present_on_any_worker(stack: ExitStack) -> None:
    """Neither where that is known as its client comes, nor where it is seen later, which ends the connection."""

    def come_back(name: str) -> tuple[MqttPeer, Connack]:
        peer = stack.enter_context(MqttPeer(sidecar.ready["clients"][0], websocket=True))
        return peer, peer.connect(name, clean=False, properties={"session_expiry": 600})

    def discarded_by(topic: str) -> int:
        """The worker that has discarded the session for this topic, by its log."""
        said = rf"worker (\d) fastpath.clients session of MQTT client '.*' discarded: messages of /__mqtt__/{topic} "
        return int(until(lambda: re.findall(said, sidecar.log))[0])

    with Sidecar(listen=LISTEN, workers=WORKERS, cache_messages=2) as sidecar, mqtt(sidecar) as mouth:
        told: set[int] = set()
        later: set[int] = set()
        for number in range(100):
            name = f"lacks{number}"
            one, _ = come_back(name)
            assert one.subscribe(f"{name}/known", f"{name}/+") == [1, 1]
            one.disconnect()
            for _ in range(3):
                mouth.publish(f"{name}/known", "x")
            one, answer = come_back(name)
            assert not answer.session_present
            assert answer.properties["reason_string"].startswith(f"messages are missing, first of {name}/known")
            assert one.subscribe(f"{name}/+") == [1]
            one.disconnect()
            told.add(discarded_by(f"{name}/known"))
            for _ in range(3):
                mouth.publish(f"{name}/new", "x")
            one, answer = come_back(name)
            assert answer.session_present
            assert [(type(packet), packet.code) for packet in one.ended()] == [(Disconnect, Reason.UNSPECIFIED)]
            later.add(discarded_by(f"{name}/new"))
            one, answer = come_back(name)
            assert not answer.session_present
            one.disconnect()
            one, answer = come_back(name)
            assert answer.session_present
            one.disconnect()
            if told == later == {0, 1}:
                break
        assert told == later == {0, 1}
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["mqtt_sessions_discarded"] == 2 * (number + 1))
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.mark.parametrize("to", [FIRST, OTHER], ids=["to-first", "to-other"])
def test_wills_of_those_who_are_taken_over(node: Sidecar, stack: ExitStack, to: bool) -> None:
    """One that waits is void if the session goes on, and is published if it begins anew (5: 3.1.3.2.2)."""
    ear = stack.enter_context(mqtt(node))
    topic = f"will{to}"
    ear.subscribe(f"{topic}/+")
    for name, delay, clean in (("now", 0, False), ("void", 300, False), ("anew", 300, True)):
        will = Will(topic=f"{topic}/{name}", payload=b"x", qos=1, properties={"will_delay": delay})
        one = come(node, stack, f"{topic}{name}", not to, present=False)  # the way there may take several connections
        one.disconnect(properties={"session_expiry": 600})
        come(node, stack, f"{topic}{name}", not to, present=True, will=will)  # and each of these leaves its will
        come(node, stack, f"{topic}{name}", to, present=not clean, clean=clean)
    found = [ear.message().topic]
    while found[-1] != f"{topic}/anew":
        found.append(ear.message().topic)
    assert set(found) == {f"{topic}/now", f"{topic}/anew"}


def test_a_member_of_a_group_goes_to_any_worker_with_what_it_has_taken(node: Sidecar, stack: ExitStack) -> None:
    """What it has not acknowledged stays its own and comes under its packet id; what others took it does not get."""
    mouth, other = (stack.enter_context(mqtt(node)) for _ in range(2))
    one = come(node, stack, "member", FIRST, present=False)
    one.subscribe("$share/g/group/+")
    mouth.publish("group/a", "0")
    before = one.message(acknowledge=False)
    for number, to in enumerate((OTHER, FIRST, OTHER), 1):
        one = come(node, stack, "member", to, present=True)
        again = one.message(acknowledge=False)
        assert (again.payload, again.packet_id, again.dup) == (b"0", before.packet_id, True)
        assert one.silent()
        assert other.subscribe("$share/g/group/+") == [1]
        one.disconnect()
        mouth.publish("group/a", f"others {number}")
        assert other.messages(1) == [("group/a", b"others %d" % number, 1, False)]
        assert other.unsubscribe("$share/g/group/+") == [0]
    one = come(node, stack, "member", OTHER, present=True)
    assert one.messages(1) == [("group/a", b"0", 1, False)]
    mouth.publish("group/a", "last")
    assert one.messages(1) == [("group/a", b"last", 1, False)]
    assert one.silent()


@pytest.mark.slow
def test_a_session_outlasts_the_death_of_its_worker(stack: ExitStack) -> None:
    with Sidecar(listen=LISTEN, workers=WORKERS) as sidecar:
        ear = stack.enter_context(mqtt(sidecar))
        ear.subscribe("wills/+")
        one = come(sidecar, stack, "worker", OTHER, present=False)
        one.subscribe("death/+")
        one.disconnect(properties={"session_expiry": 600})
        will = Will(topic="wills/worker", payload=b"x", qos=1)
        one = come(sidecar, stack, "worker", OTHER, present=True, will=will)
        assert one.subscribe("late/+") == [1]  # which the first worker knows before the client does
        told = [one[0] for one in ear.messages(0)]
        kill_worker(sidecar, 1, WORKERS)
        told += [one[0] for one in ear.messages(1)]
        assert set(told) == {"wills/worker"}
        ear.publish("death/a", "missed")
        one = come(sidecar, stack, "worker", OTHER, present=True)
        assert one.messages(1) == [("death/a", b"missed", 1, False)]
        ear.publish("late/a", "x")
        assert one.messages(1) == [("late/a", b"x", 1, False)]
        assert one.publish("death/a", "new") == 0
        assert one.messages(1) == [("death/a", b"new", 1, False)]


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["off", "interval"])
def test_a_session_outlasts_the_death_of_the_first_worker(stack: ExitStack, tmp_path: Path, journal: str) -> None:
    """One that another worker has always; one whose client is away where there is a journal."""
    data = {"data": tmp_path} if journal != "off" else {}
    with Sidecar(listen=LISTEN, workers=WORKERS, journal=journal, **data) as sidecar:
        one = come(sidecar, stack, "away", FIRST, present=False)
        one.subscribe("first/+")
        one.disconnect(properties={"session_expiry": 600})
        guest = come(sidecar, stack, "guest", OTHER, present=False)
        guest.subscribe("first/+")
        if journal != "off":
            kept(sidecar, 2)
        kill_worker(sidecar, 0, WORKERS)
        with mqtt(sidecar) as mouth:
            assert mouth.publish("first/a", "x") == 0
        assert guest.messages(1) == [("first/a", b"x", 1, False)]
        one = come(sidecar, stack, "away", FIRST, present=journal != "off")
        assert not one.silent() if journal != "off" else one.silent()
        moved = come(sidecar, stack, "guest", FIRST, present=True)
        assert ends(guest) == [Reason.TAKEN_OVER]
        with mqtt(sidecar) as mouth:
            mouth.publish("first/a", "y")
        assert moved.messages(1) == [("first/a", b"y", 1, False)]
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.mark.slow
def test_sessions_of_all_workers_outlast_a_restart(stack: ExitStack, tmp_path: Path) -> None:
    with Sidecar(listen=LISTEN, workers=WORKERS, journal="interval", data=tmp_path) as sidecar:
        for number, to in enumerate((FIRST, OTHER)):
            one = come(sidecar, stack, f"all{number}", to, present=False)
            one.subscribe("all/+")
            one.publish("all/a", "x")
            one.message(acknowledge=False)
        sidecar.stop()
        sidecar.start()
        for number, to in enumerate((OTHER, FIRST)):
            one = come(sidecar, stack, f"all{number}", to, present=True)
            found = one.message()
            assert (found.payload, found.dup) == (b"x", True)
