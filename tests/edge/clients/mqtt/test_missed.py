"""A session of MQTT never misses a message in silence: it is not present any more, or ends with its connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.client.control.client import Control
from fastpath.core.mqtt.packets import Ack, Connack, Disconnect, Filter, PublishPacket, Type, Will
from fastpath.core.mqtt.reasons import Reason
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import Sidecar
from tests.support.tokens import mint
from tests.support.waiting import until

LEVELS = pytest.mark.parametrize("level", [4, 5])
CACHED = 5


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar that keeps little, for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN, cache_messages=CACHED) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def lasting(level: int = 5, **properties: Any) -> dict[str, Any]:
    """What a client says who wants its session to last."""
    return {"clean": False} | ({"properties": {"session_expiry": 600, **properties}} if level == 5 else {})


def follow(broker: Sidecar, name: str, *filters: Filter | str, level: int = 5) -> None:
    """A client subscribes, with a session that lasts, and goes."""
    with mqtt(broker, name, level, **lasting(level)) as one:
        codes = one.subscribe(*filters)
        assert all(code < 0x80 for code in codes)
        one.disconnect()


def publish(broker: Sidecar, topic: str, count: int, **rest: Any) -> None:
    """So many messages of a topic."""
    with mqtt(broker) as mouth:
        for number in range(count):
            assert mouth.publish(topic, str(number), **rest) == 0


def back(broker: Sidecar, name: str, level: int = 5, **properties: Any) -> Connack:
    """How the client that comes back is answered; nothing comes that it has not asked for anew."""
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        answer = one.connect(name, **lasting(level, **properties))
        assert answer.code == 0
        if not answer.session_present:
            assert one.silent()
        one.disconnect()
        return answer


def discarded(broker: Sidecar) -> float:
    """How many sessions ended for what they had missed."""
    with Control(broker.control) as control:
        return float(control.stats()["mqtt_sessions_discarded"])


@LEVELS
@pytest.mark.parametrize("wild", [False, True])
def test_a_session_that_missed_more_than_is_cached_is_not_present(broker: Sidecar, level: int, wild: bool) -> None:
    name = f"missed/{level}/{wild}"
    with mqtt(broker, name, level, **lasting(level)) as one:
        one.subscribe(f"{name}/+" if wild else f"{name}/a")
        one.publish(f"{name}/a", "read")
        assert one.message().payload == b"read"
        one.disconnect()
    before = discarded(broker)
    publish(broker, f"{name}/a", CACHED)
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        assert one.connect(name, **lasting(level)).session_present
        assert [payload for _, payload, _, _ in one.messages(CACHED)] == [b"%d" % number for number in range(CACHED)]
        assert one.silent()
        one.disconnect()
    publish(broker, f"{name}/a", CACHED + 1)
    answer = back(broker, name, level)
    assert not answer.session_present
    reason = f"messages are missing, first of {name}/a: the session is over"
    assert answer.properties.get("reason_string") == (reason if level == 5 else None)
    assert discarded(broker) == before + 1
    until(lambda: f"session of MQTT client '{name}' discarded" in broker.log)  # a thread of its own writes it
    assert back(broker, name, level).session_present


def test_what_is_said_of_it_is_no_more_than_the_client_takes(broker: Sidecar) -> None:
    for name, properties in (("quiet", {"request_problem_information": 0}), ("small", {"maximum_packet_size": 40})):
        follow(broker, name, f"told/{name}")
        publish(broker, f"told/{name}", CACHED + 1)
        answer = back(broker, name, **properties)
        assert not answer.session_present
        assert "reason_string" not in answer.properties


def test_what_nobody_was_promised_is_not_missed(broker: Sidecar) -> None:
    """A subscription of QoS 0, to whose client nothing comes twice, and none of publications of QoS 0."""
    follow(broker, "nothing", Filter(text="zero/+", qos=0), Filter(text="one/+", qos=1))
    publish(broker, "zero/a", CACHED + 1)
    publish(broker, "one/a", CACHED + 1, qos=0)
    assert back(broker, "nothing").session_present


def test_a_retained_message_stands_for_what_was_missed(broker: Sidecar) -> None:
    follow(broker, "stood", "stood/+")
    publish(broker, "stood/a", CACHED + 3, retain=True)
    with mqtt(broker, "stood", **lasting()) as one:
        assert one.messages(1) == [("stood/a", b"%d" % (CACHED + 2), 1, True)]
        assert one.silent()


@pytest.mark.parametrize("why", ["unwanted", "expired", "unsafe", "large"])
def test_a_retained_message_that_may_not_come_stands_for_nothing(broker: Sidecar, why: str) -> None:
    """Its client does not want it, or it is of no use any more, or would come with QoS 0 and could be lost."""
    topic = f"stands/{why}"
    follow(broker, why, Filter(text=topic, qos=1, handling=2 if why == "unwanted" else 0))
    with mqtt(broker) as mouth:
        properties = {"message_expiry": 0} if why == "expired" else {}
        for _ in range(CACHED + 1):
            mouth.publish(topic, "x" * 200, retain=True, properties=properties)
        if why == "unsafe":
            mouth.publish(topic, "x", 0, retain=True)
            mouth.publish(topic, "y")
    if why != "large":
        assert not back(broker, why).session_present
        return
    with mqtt(broker, why, **lasting(maximum_packet_size=200)) as one:  # known as it would leave
        assert ends(one) == [Reason.UNSPECIFIED]
    assert not back(broker, why).session_present


def ends(peer: MqttPeer) -> list[int]:
    """What the server says as it ends the connection, before which no message has come."""
    packets = peer.ended()
    assert all(isinstance(one, Disconnect) for one in packets), packets
    return [one.code for one in packets if isinstance(one, Disconnect)]


@LEVELS
def test_what_is_found_to_be_missed_later_ends_the_connection_and_the_session(broker: Sidecar, level: int) -> None:
    """A subject that a filter covers and the session does not know; nothing comes of it, and nothing behind it."""
    name = f"later{level}"
    follow(broker, name, f"{name}/+", level=level)
    publish(broker, f"{name}/new", CACHED + 1)
    before = discarded(broker)
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        assert one.connect(name, **lasting(level)).session_present
        packets = one.ended()
        told = [found for found in packets if isinstance(found, Disconnect)]
        assert packets == told
        assert [found.code for found in told] == ([Reason.UNSPECIFIED] if level == 5 else [])
        reason = f"messages are missing, first of {name}/new: the session is over"
        assert [found.properties["reason_string"] for found in told] == ([reason] if level == 5 else [])
    assert discarded(broker) == before + 1
    assert not back(broker, name, level).session_present
    assert back(broker, name, level).session_present


def test_a_group_misses_what_came_while_nobody_was_there(broker: Sidecar) -> None:
    follow(broker, "member", "$share/g/crew/+")
    with mqtt(broker, "member", **lasting()) as one, mqtt(broker, "other", **lasting()) as other:
        assert other.subscribe("$share/g/crew/+") == [1]
        one.disconnect()
        with mqtt(broker) as mouth:
            for number in range(CACHED + 5):
                mouth.publish("crew/a", str(number))
                assert other.message().payload == b"%d" % number
        assert back(broker, "member").session_present  # the other one has taken all
        other.disconnect()
    with mqtt(broker, "member", **lasting()) as one:
        assert one.silent()
        one.publish("crew/a", "mine")
        assert one.messages(1) == [("crew/a", b"mine", 1, False)]
        one.disconnect()
    publish(broker, "crew/a", CACHED + 5)
    assert not back(broker, "member").session_present
    assert not back(broker, "other").session_present


def test_what_comes_to_a_client_that_is_taken_over_is_not_missed(broker: Sidecar) -> None:
    with mqtt(broker, "taken", **lasting()) as one, mqtt(broker) as mouth:
        one.subscribe("taken/a")
        for number in range(CACHED + 5):
            mouth.publish("taken/a", str(number))
            assert one.message(acknowledge=number > 0).payload == b"%d" % number
        assert one.silent()
        with mqtt(broker, "taken", **lasting()) as other:
            again = other.message()
            assert (again.payload, again.dup) == (b"0", True)
            assert other.silent()


def test_who_has_nothing_that_it_could_not_be_sent_yet_is_told_when_that_is_gone(broker: Sidecar) -> None:
    """It waits in the queue of a client that acknowledges nothing, and the connection ends."""
    with mqtt(broker, "waits", **lasting(receive_maximum=1)) as one, mqtt(broker) as mouth:
        one.subscribe("waits/a")
        for number in range(CACHED + 2):
            mouth.publish("waits/a", str(number))
        assert one.message(acknowledge=False).payload == b"0"
        assert one.silent()
    assert not back(broker, "waits").session_present


def test_a_subscription_whose_answer_has_overtaken_messages_begins_where_it_was_answered(broker: Sidecar) -> None:
    with mqtt(broker, "begins", **lasting(receive_maximum=1)) as one, mqtt(broker) as mouth:
        one.subscribe("begins/a")
        for number in range(3):
            mouth.publish("begins/a", str(number))
        assert one.message(acknowledge=False).payload == b"0"
        assert one.silent()
        assert one.subscribe("begins/b") == [1]
        one.sock.close()
        mouth.publish("begins/b", "missed")
    with mqtt(broker, "begins", **lasting()) as one:
        assert [(found[0], found[1]) for found in one.messages(4) if found[0] == "begins/b"] == [
            ("begins/b", b"missed")
        ]
        assert one.silent()


def test_what_the_client_may_not_read_any_more_it_has_not_missed() -> None:
    rights = [rule(1, "/stocks/*"), rule(2, "/orders/*")]
    with (
        ruled(*rights, listen=LISTEN, cache_messages=CACHED) as rules,
        rules.publisher() as publisher,
    ):
        token = mint("alice", generation=rules.generation).encode()
        who = {"user": "x", "password": token, **lasting()}
        with mqtt(rules.sidecar, "a", **who) as one:
            assert one.subscribe("/stocks/a", "/orders/a") == [1, 1]
            one.disconnect()
        rules.change(removed=[1])
        publisher.publish(*[["/stocks/a", str(number), None, {"retained": False}] for number in range(CACHED + 1)])
        with MqttPeer(rules.sidecar.ready["mqtt"][0]) as one:
            assert one.connect("a", **who).session_present
            assert one.silent()
            one.disconnect()
        publisher.publish(*[["/orders/a", str(number), None, {"retained": False}] for number in range(CACHED + 1)])
        with MqttPeer(rules.sidecar.ready["mqtt"][0]) as one:
            assert not one.connect("a", **who).session_present


def test_over_a_restart_nothing_is_missed_that_is_in_the_journal_and_nothing_else_in_silence(tmp_path: Path) -> None:
    """Also of what nothing was published to before."""
    with Sidecar(listen=LISTEN, journal="interval", data=tmp_path, cache_messages=CACHED) as sidecar:
        for name in ("reached", "beyond"):
            with mqtt(sidecar, name, **lasting()) as one:
                one.subscribe(f"{name}/a", f"{name}/never", f"{name}/quiet")
                one.publish(f"{name}/a", "0")
                found = one.message(acknowledge=False)
                one.send(PublishPacket(topic=f"{name}/quiet", payload=b"x", qos=0))
                assert one.message().topic == f"{name}/quiet"
        publish(sidecar, "beyond/a", CACHED)  # what is under way is in the cache no more
        sidecar.stop()
        sidecar.start()
        publish(sidecar, "reached/never", 2)
        with mqtt(sidecar) as mouth:
            mouth.publish("reached/quiet", "x", 0)
        with MqttPeer(sidecar.ready["mqtt"][0]) as one:
            assert one.connect("reached", **lasting()).session_present
            came = sorted((each.topic, each.payload, each.dup) for each in (one.message() for _ in range(3)))
            assert came == [
                ("reached/a", b"0", True),
                ("reached/never", b"0", False),
                ("reached/never", b"1", False),
            ]
            assert one.silent()
        assert found.packet_id
        assert not back(sidecar, "beyond").session_present


def test_a_session_that_is_over_is_over_also_for_what_it_had_published(broker: Sidecar) -> None:
    """What is under way with QoS 2 is not known any more, which is said; a will that had waited is void."""
    will = Will(topic="gone/will", payload=b"x", qos=1, properties={"will_delay": 300})
    with mqtt(broker) as ear:
        ear.subscribe("gone/will")
        with mqtt(broker, "gone", will=will, **lasting()) as one:
            one.subscribe("gone/a")
            one.send(PublishPacket(topic="gone/b", payload=b"2", qos=2, packet_id=10))
            assert one.receive(Ack) == Ack(type=Type.PUBREC, packet_id=10)
            one.disconnect(code=Reason.DISCONNECT_WITH_WILL)
        publish(broker, "gone/a", CACHED + 1)
        with MqttPeer(broker.ready["mqtt"][0]) as one:
            assert not one.connect("gone", **lasting()).session_present
            one.send(Ack(type=Type.PUBREL, packet_id=10))
            assert one.receive(Ack).code == Reason.PACKET_ID_NOT_FOUND
            assert ear.silent()
