"""Normative statements of MQTT 3.1.1 and 5 that no other test holds (docs/reference/mqtt-statements.md names each)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as websocket_to
from websockets.typing import Subprotocol

from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import (
    Ack,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
    Will,
)
from fastpath.core.mqtt.reasons import Reason, allowed_reason
from fastpath.core.mqtt.session import RECEIVE_MAX
from tests.support.edge.mqtt import LISTEN, MqttPeer, mqtt
from tests.support.edge.rules import rule, ruled
from tests.support.sidecar import Sidecar

LEVELS = pytest.mark.parametrize("level", [4, 5])


@pytest.fixture(scope="module")
def broker() -> Iterator[Sidecar]:
    """A sidecar for all tests of this module, each with topics of its own."""
    with Sidecar(listen=LISTEN, message_bytes_max=1000) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def codes(peer: MqttPeer) -> list[int]:
    """What the server says as it ends the connection."""
    return [one.code for one in peer.ended() if isinstance(one, Disconnect)]


FAULTS = [
    ("3.3.1-4", 5, "36 06 0001 61 0001 00", Reason.MALFORMED),
    ("3.3.2-8", 5, "30 08 0001 61 03 23 0000 78", Reason.TOPIC_ALIAS_INVALID),
    ("3.3.2-14", 5, "30 08 0001 61 04 08 0001 23", Reason.TOPIC_INVALID),
    ("3.3.2-13", 5, "30 09 0001 61 05 08 0002 c328", Reason.MALFORMED),
    ("3.3.2-19", 5, "30 09 0001 61 05 03 0002 c328", Reason.MALFORMED),
    ("3.3.4-6", 5, "30 06 0001 61 02 0b 01", Reason.PROTOCOL_ERROR),
    ("1.5.7-1", 5, "30 0a 0001 61 06 26 0001 00 0000", Reason.MALFORMED),
    ("3.6.1-1", 5, "60 02 0001", Reason.MALFORMED),
    ("3.8.1-1", 5, "80 07 0001 00 0001 61 00", Reason.MALFORMED),
    ("3.8.3-1", 5, "82 08 0001 00 0002 6100 00", Reason.MALFORMED),
    ("3.8.3-2", 5, "82 03 0001 00", Reason.PROTOCOL_ERROR),
    ("3.8.3-5", 5, "82 07 0001 00 0001 61 40", Reason.MALFORMED),
    ("3.10.1-1", 5, "a0 06 0001 00 0001 61", Reason.MALFORMED),
    ("3.10.3-1", 5, "a2 07 0001 00 0002 6100", Reason.MALFORMED),
    ("3.10.3-2", 5, "a2 03 0001 00", Reason.PROTOCOL_ERROR),
    ("3.14.1-1", 5, "e1 00", Reason.MALFORMED),
    ("3.15.1-1", 5, "f1 00", Reason.MALFORMED),
    ("4.12.0-7", 5, "f0 02 18 00", Reason.PROTOCOL_ERROR),
    ("1.5.5-1", 5, "30 05 0001 61 8000", Reason.MALFORMED),
    ("4.7.3-1", 5, "82 06 0001 00 0000 00", Reason.FILTER_INVALID),
    ("4.7.1-1", 5, "82 0a 0001 00 0004 612f2362 00", Reason.FILTER_INVALID),
    ("4.7.1-2", 5, "82 08 0001 00 0002 612b 00", Reason.FILTER_INVALID),
    ("1.5.3-1", 4, "30 05 0003 eda080", None),
    ("1.5.3-2", 4, "82 07 0001 0002 6100 00", None),
    ("2.2.2-2", 4, "62 02", None),
    ("2.3.1-1", 4, "82 06 0000 0001 61 00", None),
    ("3.8.3-4", 4, "82 06 0001 0001 61 80", None),
    ("4.7.3-2", 4, "30 04 0002 6100", None),
]


@pytest.mark.parametrize(("statement", "level", "text", "code"), FAULTS, ids=[one[0] for one in FAULTS])
def test_a_fault_ends_the_connection(
    broker: Sidecar, statement: str, level: int, text: str, code: Reason | None
) -> None:
    with mqtt(broker, level=level) as one:
        data = bytes.fromhex(text)
        one.send_bytes(data if statement != "2.2.2-2" else b"\x60\x02\0\1")
        assert codes(one) == ([code] if code is not None else [])


CONNECTS = [
    ("3.1.2-3", "10 0e 0004 4d515454 05 03 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.2-11", "10 0e 0004 4d515454 05 0a 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.2-12", "10 15 0004 4d515454 05 1e 003c 00 0001 61 00 0001 62 0001 63", Reason.MALFORMED),
    ("3.1.2-13", "10 0e 0004 4d515454 05 22 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.2-9", "10 0e 0004 4d515454 05 06 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.2-16", "10 11 0004 4d515454 05 02 003c 00 0001 61 0001 75", Reason.MALFORMED),
    ("3.1.2-17", "10 0e 0004 4d515454 05 82 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.2-18", "10 14 0004 4d515454 05 82 003c 00 0001 61 0001 75 0001 70", Reason.MALFORMED),
    ("3.1.2-19", "10 0e 0004 4d515454 05 42 003c 00 0001 61", Reason.MALFORMED),
    ("3.1.3-3", "10 0b 0004 4d515454 05 02 003c 00", Reason.MALFORMED),
    ("3.1.3-4", "10 0f 0004 4d515454 05 02 003c 00 0002 6100", Reason.MALFORMED),
    ("3.1.3-11", "10 15 0004 4d515454 05 06 003c 00 0001 61 00 0002 6200 0001 63"[:-3], Reason.MALFORMED),
    ("3.1.3-12", "10 12 0004 4d515454 05 82 003c 00 0001 61 0002 7500", Reason.MALFORMED),
    ("4.12.0-1", "10 12 0004 4d515454 05 02 003c 04 15 0001 78 0001 61", Reason.BAD_AUTHENTICATION_METHOD),
]


@LEVELS
@pytest.mark.parametrize(("statement", "text", "code"), CONNECTS, ids=[one[0] for one in CONNECTS])
def test_who_comes_with_a_fault_is_refused_and_nothing_behind_it_counts(
    broker: Sidecar, statement: str, text: str, code: Reason, level: int
) -> None:
    """Also 3.1.4-1, 3.1.4-6, 3.2.2-6, 3.2.2-7, 3.14.0-1: one CONNACK, no session, no DISCONNECT. MQTT 3.1.1 has no
    return code for a fault, and so no CONNACK (3.1.4-1, 3.2.2-6 there)."""
    topic = f"refused/{statement}{level}"
    if level == 4:
        if statement == "4.12.0-1":
            return  # a property
        text = text.replace(" 05 ", " 04 ", 1).replace("003c 00 ", "003c ", 1).replace("003c 00", "003c", 1)
        text = text.replace("0001 61 00 0", "0001 61 0", 1)
    with mqtt(broker) as ear, MqttPeer(broker.ready["mqtt"][0], level) as one:
        ear.subscribe(topic)
        data = bytearray.fromhex(text.replace(" ", ""))
        data[1] = len(data) - 2
        one.send_bytes(bytes(data) + encode(PublishPacket(topic=topic, payload=b"x"), level))
        found = one.ended()
        assert [type(each) for each in found] == [Connack] * (level == 5)
        assert [(each.code, each.session_present) for each in found if isinstance(each, Connack)] == (
            [(code, False)] if level == 5 else []
        )
        assert ear.silent()


def test_a_packet_may_say_so_much_and_no_other_reason() -> None:
    """3.2.2-8, 3.4.2-1, 3.5.2-1, 3.9.3-2, 3.14.2-1: each reason has a form in each packet, and stays where it may."""
    for kind in (Type.CONNACK, Type.PUBACK, Type.PUBREC, Type.SUBACK, Type.DISCONNECT):
        for reason in Reason:
            said = allowed_reason(kind, reason)
            assert allowed_reason(kind, said) == said
            assert (said < 0x80) <= (reason < 0x80)
    assert allowed_reason(Type.PUBACK, Reason.PACKET_TOO_LARGE) == Reason.IMPLEMENTATION_SPECIFIC
    assert allowed_reason(Type.DISCONNECT, Reason.SERVER_UNAVAILABLE) == Reason.SERVER_BUSY
    assert allowed_reason(Type.CONNACK, Reason.SHUTTING_DOWN) == Reason.SERVER_UNAVAILABLE
    assert allowed_reason(Type.SUBACK, Reason.FILTER_INVALID) == Reason.FILTER_INVALID


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publication_that_is_too_large_has_a_reason_that_an_acknowledgement_may_have(
    broker: Sidecar, qos: int
) -> None:
    """3.4.2-1, 3.5.2-1; the packet id is free again (4.3.3-9)."""
    with mqtt(broker) as one:
        assert one.publish("too/large", "x" * 2000, qos, packet_id=7) == Reason.IMPLEMENTATION_SPECIFIC
        assert one.publish("too/large", "x", qos, packet_id=7) == 0


@pytest.mark.parametrize(("told", "size"), [(True, 0), (False, 0), (True, 25)])
def test_words_are_said_only_to_who_wants_them_and_takes_them(told: bool, size: int) -> None:
    """3.1.2-24, 3.1.2-29, 3.4.2-2, 3.5.2-2, 3.9.2-1, 3.14.2-3: no packet is larger than the client takes for them."""
    said = told and not size
    properties = {"request_problem_information": int(told)} | ({"maximum_packet_size": size} if size else {})
    rules = [rule(1, "/open/**", "anonymous", action="both")]
    with ruled(*rules, listen=LISTEN) as rights, mqtt(rights.sidecar, "words", properties=properties) as one:
        one.send(SubscribePacket(packet_id=1, filters=[Filter(text="/closed/a")]))
        suback = one.receive(Suback)
        assert (suback.codes, "reason_string" in suback.properties) == ([Reason.UNSPECIFIED], said)
        for qos, kind in ((1, Type.PUBACK), (2, Type.PUBREC)):
            one.send(PublishPacket(topic="/closed/a", payload=b"x", qos=qos, packet_id=qos))
            ack = one.receive(Ack)
            assert (ack.type, ack.code, "reason_string" in ack.properties) == (kind, Reason.NOT_AUTHORIZED, said)
        one.send(SubscribePacket(packet_id=2, filters=[Filter(text="a+")]))
        [end] = one.ended()
        assert isinstance(end, Disconnect)
        assert (end.code, "reason_string" in end.properties) == (Reason.FILTER_INVALID, not size)


def test_an_answer_that_is_larger_than_the_client_takes_ends_the_connection(broker: Sidecar) -> None:
    """3.1.2-24; without it the client would wait for ever."""
    with mqtt(broker, "large", properties={"maximum_packet_size": 30}) as one:
        one.send(SubscribePacket(packet_id=1, filters=[Filter(text=f"many/{n}") for n in range(40)]))
        assert codes(one) == [Reason.PACKET_TOO_LARGE]
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        one.send(ConnectPacket(level=5, client_id="", properties={"maximum_packet_size": 4}))
        assert one.ended() == []


def test_strings_are_what_they_are(broker: Sidecar) -> None:
    """1.5.4-3, 4.7.3-4, 3.3.2-3: a zero width no-break space, and forms of a letter that look alike, are kept."""
    names = ["\ufeffa", "a", "A", "a ", "\u00e9", "e\u0301", "a\u200b"]
    with mqtt(broker) as one, mqtt(broker) as other:
        for name in names:
            other.subscribe(f"alike/{name}")
        for name in names:
            assert one.publish(f"alike/{name}", name, properties={"content_type": name, "response_topic": name}) == 0
        found = [other.message() for _ in names]
        assert [each.topic for each in found] == [f"alike/{name}" for name in names]
        assert [each.properties["content_type"] for each in found] == names
        assert [each.properties["response_topic"] for each in found] == names
        assert other.silent()


@LEVELS
def test_a_topic_that_is_very_long(broker: Sidecar, level: int) -> None:
    """4.7.3-3: 65,535 bytes are a topic; it is more than a subject has, which is told and costs others nothing."""
    long = PublishPacket(topic="a" * 65_535, payload=b"", qos=1, packet_id=1)
    with mqtt(broker, level=level) as one, mqtt(broker) as other:
        one.send(long)
        if level == 5:
            assert one.receive(Ack).code == Reason.TOPIC_INVALID
            assert one.subscribe(long.topic) == [Reason.FILTER_INVALID]
        else:
            assert one.ended() == []
        assert other.publish("short", "x") == 0


def test_an_alias_is_of_one_connection(broker: Sidecar) -> None:
    """3.3.2-7, 3.3.2-12: each number that the server allows, and none of an earlier connection."""
    lasting = {"clean": False, "properties": {"session_expiry": 60}}
    with mqtt(broker, "aliases", **lasting) as one, mqtt(broker) as ear:
        ear.subscribe("alias/+", qos=0)
        for number in range(1, 33):
            one.send(PublishPacket(topic=f"alias/{number}", payload=b"x", properties={"topic_alias": number}))
        one.send(PublishPacket(topic="", payload=b"again", properties={"topic_alias": 32}))
        assert ear.messages(33)[-1] == ("alias/32", b"again", 0, False)
    with mqtt(broker, "aliases", **lasting) as one:
        one.send(PublishPacket(topic="", payload=b"x", properties={"topic_alias": 32}))
        assert codes(one) == [Reason.PROTOCOL_ERROR]


def test_more_than_the_receive_maximum_ends_the_connection(broker: Sidecar) -> None:
    """3.3.4-7: of QoS 2 and not released, as what is of QoS 1 is acknowledged; one less does no harm."""
    with mqtt(broker) as one:
        for number in range(1, RECEIVE_MAX + 1):
            one.send(PublishPacket(topic="flood", payload=b"x", qos=2, packet_id=number))
        for _ in range(RECEIVE_MAX):
            assert one.receive(Ack).code == 0
        assert one.silent()
        one.send(PublishPacket(topic="flood", payload=b"x", qos=2, packet_id=RECEIVE_MAX + 1))
        assert codes(one) == [Reason.RECEIVE_MAXIMUM_EXCEEDED]
    with mqtt(broker) as one, mqtt(broker) as ear:
        ear.subscribe("flood/1", qos=0)
        for number in range(1, 3 * RECEIVE_MAX):
            one.send(PublishPacket(topic="flood/1", payload=b"%d" % number, qos=1, packet_id=number))
        for _ in range(1, 3 * RECEIVE_MAX):
            assert one.receive(Ack).code == 0
        assert [int(payload) for _, payload, _, _ in ear.messages(3 * RECEIVE_MAX - 1)] == [*range(1, 3 * RECEIVE_MAX)]


def test_an_acknowledgement_with_an_error_is_one(broker: Sidecar) -> None:
    """4.4.0-2, 4.8.2-6: the message is neither sent again nor to another member of the group."""
    lasting = {"clean": False, "properties": {"session_expiry": 60}}
    with mqtt(broker, "refuses", **lasting) as one, mqtt(broker) as other:
        one.subscribe("refuse/own", "$share/crew/refuse/group")
        for topic in ("refuse/own", "refuse/group"):
            other.publish(topic, "x")
            found = one.message(acknowledge=False)
            one.send(Ack(type=Type.PUBACK, packet_id=found.packet_id, code=Reason.UNSPECIFIED))
        assert one.silent()
        other.subscribe("$share/crew/refuse/group")
    with mqtt(broker, "refuses", **lasting) as one:
        assert one.silent()
        assert one.unsubscribe("$share/crew/refuse/group") == [0]
        one.disconnect(properties={"session_expiry": 0})


def test_a_filter_without_a_subscription_and_one_that_is_replaced(broker: Sidecar) -> None:
    """3.8.4-3, 3.8.4-4, 3.10.4-1 to 3.10.4-3: the same text, character by character; nothing is lost or comes twice."""
    with mqtt(broker) as one, mqtt(broker) as other:
        one.subscribe("replace/+")
        for number in range(20):
            other.publish("replace/a", str(number))
            if number % 5 == 0:
                assert one.subscribe("replace/+", qos=number % 2) == [number % 2]
        had = [one.message(acknowledge=False) for _ in range(20)]
        assert [each.payload for each in had] == [b"%d" % number for number in range(20)]
        assert one.unsubscribe("replace/a", "replace/#", "Replace/+", "replace/+/") == [0x11] * 4
        assert one.unsubscribe("replace/+") == [0]
        other.publish("replace/a", "nobody's")
        assert one.silent()
        for each in had:
            if each.qos:
                one.send(Ack(type=Type.PUBACK, packet_id=each.packet_id))
        assert one.silent()


def test_retain_handling(broker: Sidecar) -> None:
    """3.3.1-9 to 3.3.1-11, for filters with and without wildcards."""
    with mqtt(broker) as one, mqtt(broker) as other:
        other.publish("handling/a", "kept", retain=True)
        for text in ("handling/a", "handling/+"):
            for handling, times in ((2, 0), (1, 0), (0, 1), (0, 1), (1, 0)):
                one.subscribe(Filter(text=text, qos=1, handling=handling))
                assert [payload for _, payload, _, _ in one.messages(times)] == [b"kept"] * times
                assert one.silent()
            assert one.unsubscribe(text) == [0]
            one.subscribe(Filter(text=text, qos=1, handling=1))
            assert one.messages(1) == [("handling/a", b"kept", 1, True)]
            assert one.unsubscribe(text) == [0]


@pytest.mark.parametrize("retain", [False, True])
def test_a_will_is_retained_if_it_says_so(broker: Sidecar, retain: bool) -> None:
    """3.1.2-14, 3.1.2-15, 3.1.3-10: with its user properties, in their order."""
    pairs = [("b", "1"), ("a", "2"), ("b", "3")]
    will = Will(topic=f"will/{retain}", payload=b"gone", qos=1, retain=retain, properties={"user_property": pairs})
    with mqtt(broker) as ear:
        ear.subscribe("will/+")
        with mqtt(broker, will=will) as one:
            one.sock.close()
        found = ear.message()
        assert (found.payload, found.retain, found.properties["user_property"]) == (b"gone", False, pairs)
    with mqtt(broker) as late:
        late.subscribe(f"will/{retain}")
        assert late.silent() is not retain


@LEVELS
def test_a_connack_is_the_first_packet_and_the_only_one(broker: Sidecar, level: int) -> None:
    """3.2.0-1, 3.2.0-2: though messages wait, and the client has said much by then."""
    lasting = {"clean": False, **({"properties": {"session_expiry": 60}} if level == 5 else {})}
    with mqtt(broker, f"first{level}", level, **lasting) as one:
        one.subscribe(f"first/{level}")
    with mqtt(broker) as other:
        other.publish(f"first/{level}", "x")
    with MqttPeer(broker.ready["mqtt"][0], level) as one:
        packet = ConnectPacket(level=level, client_id=f"first{level}", **lasting)
        one.send_bytes(encode(packet, level) + b"\xc0\0" * 3)
        assert one.message().payload == b"x"
        assert one.silent()
        assert isinstance(one.packets[0], Connack)
        assert one.packets[0].session_present
        assert sum(isinstance(each, Connack) for each in one.packets) == 1
    with mqtt(broker, f"first{level}", level) as one:  # clean: the session is over
        assert one.silent()


def test_a_session_expiry_that_was_none_cannot_be_given_at_the_end(broker: Sidecar) -> None:
    with mqtt(broker) as one:
        one.send(Disconnect(properties={"session_expiry": 5}))
        assert codes(one) == [Reason.PROTOCOL_ERROR]


@LEVELS
def test_the_ids_that_each_server_takes(broker: Sidecar, level: int) -> None:
    """3.1.3-5: letters and digits, up to 23 of them."""
    for client_id in ("0123456789abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ", "0"):
        with mqtt(broker, client_id, level) as one:
            assert one.silent()


@LEVELS
def test_a_code_for_each_filter_in_their_order(broker: Sidecar, level: int) -> None:
    """3.8.4-5 to 3.8.4-7, 3.9.3-1: also where one of them is refused."""
    wanted = [Filter(text="order/a", qos=0), Filter(text="x" * 600, qos=1), Filter(text="order/b", qos=1)]
    with mqtt(broker, level=level) as one:
        assert one.subscribe(*wanted) == [0, Reason.FILTER_INVALID if level == 5 else 0x80, 1]
        for topic in ("order/a", "order/b"):
            one.publish(topic, topic)
        assert [(topic, qos) for topic, _, qos, _ in one.messages(2)] == [("order/a", 0), ("order/b", 1)]


def test_what_has_expired_is_not_sent(broker: Sidecar) -> None:
    """3.3.2-5, 3.3.2-6: to a client that comes back, and as what is retained; what has not says how long it still is
    of use."""
    lasting = {"clean": False, "properties": {"session_expiry": 60}}
    with mqtt(broker, "expires", **lasting) as one:
        one.subscribe("expiry/+")
    with mqtt(broker) as other:
        for name, seconds in (("a", 0), ("b", 60), ("c", 0), ("d", 60)):
            retain = name in "cd"
            other.publish(f"expiry/{name}", name, retain=retain, properties={"message_expiry": seconds})
        other.subscribe("expiry/#")
        found = other.message()
        assert (found.topic, found.retain) == ("expiry/d", True)
        assert other.silent()
    with mqtt(broker, "expires", **lasting) as one:
        found = [one.message(), one.message()]
        assert sorted(each.topic for each in found) == ["expiry/b", "expiry/d"]
        assert all(0 < each.properties["message_expiry"] <= 60 for each in found)
        assert one.silent()
        one.disconnect(properties={"session_expiry": 0})


def test_a_client_without_an_id_may_have_a_session_that_lasts(broker: Sidecar) -> None:
    """3.1.3-6, 3.1.3-7, 3.2.2-16: MQTT 5 tells it the id by which it finds it again, which is nobody else's."""
    lasting = {"clean": False, "properties": {"session_expiry": 60}}
    with MqttPeer(broker.ready["mqtt"][0]) as one, MqttPeer(broker.ready["mqtt"][0]) as other:
        ids = [each.connect("", **lasting).properties["assigned_client_id"] for each in (one, other)]
        assert len({*ids, ""}) == 3
        one.subscribe("assigned/a")
        one.disconnect()
        other.publish("assigned/a", "x")
    with MqttPeer(broker.ready["mqtt"][0]) as one:
        assert one.connect(ids[0], **lasting).session_present
        assert one.messages(1)[0][1] == b"x"


@LEVELS
def test_a_packet_id_is_free_when_its_message_is_acknowledged(broker: Sidecar, level: int) -> None:
    """4.3.2-5, 4.3.3-12, 2.2.1-4, 2.2.1-5: what comes with it then is another message."""
    with mqtt(broker, level=level) as one, mqtt(broker, level=level) as ear:
        ear.subscribe("ids")
        for qos in (1, 2, 1):
            assert one.publish("ids", f"{qos}", qos, packet_id=9) == 0
            if qos == 2:
                one.send(Ack(type=Type.PUBREL, packet_id=9))
                assert one.receive(Ack).packet_id == 9
        found = [ear.message(acknowledge=False) for _ in range(3)]
        assert [each.payload for each in found] == [b"1", b"2", b"1"]
        assert len({each.packet_id for each in found} - {0}) == 3
        assert not any(each.dup for each in found)


def test_a_websocket_has_binary_messages_and_the_subprotocol(broker: Sidecar) -> None:
    """6.0.0-1, 6.0.0-3, 6.0.0-4."""
    url = f"ws://{broker.ready['clients'][0]}/mqtt"
    with websocket_to(url, subprotocols=[Subprotocol("mqtt")]) as one:
        assert one.subprotocol == "mqtt"
        one.send("text")
        with pytest.raises(ConnectionClosed):
            one.recv(10)
