"""Records on their way out: what one client takes of them, and what that costs."""

from __future__ import annotations

import pytest

from fastpath.core.mqtt.decoding import Splitter, decode
from fastpath.core.mqtt.groups.shares import Share
from fastpath.core.mqtt.outgoing import Outgoing, SharedPackets
from fastpath.core.mqtt.packets import Filter, PublishPacket
from fastpath.core.mqtt.reasons import V5
from fastpath.core.mqtt.records import LIVE_STAND_IN, STAND_IN, encode_gap, encode_record
from fastpath.core.mqtt.session import MqttSession, Subscription
from fastpath.core.protocol.codec import MQTT5
from fastpath.core.protocol.messages import Message
from tests.support.core.outgoing import Open, Silent


def outgoing(*, packet_bytes_max: int = 0, aliases: int = 0, qos: int = 1) -> Outgoing:
    """Of a client that takes one message of QoS 1 before it acknowledges, and has subscribed to all topics."""
    session = MqttSession("publisher", V5, 0)
    session.subscribe(Subscription(Filter(text="#", qos=qos), ["/**"], 0, wants=True))
    return Outgoing(session, Silent(), Open(), 1, packet_bytes_max, aliases, 1 << 20)


def packets(data: bytes) -> list[bytes]:
    """The packets one by one."""
    return Splitter(1 << 20).feed(data)


def test_what_waits_for_acknowledgements_costs_nothing() -> None:
    record = encode_record(Message("/a/b", "x", epoch=1, seq=1), 1, 0, MQTT5)
    client, many = outgoing(), record * 20_000
    assert client.take(many, 0)[0] == len(record)
    rest = many[len(record) :]
    for _ in range(1000):
        assert client.take(rest, 0) == (0, b"")


def test_an_alias_makes_no_packet_larger_than_the_client_takes() -> None:
    record = encode_record(Message("/a/b", "x" * 40, epoch=1, seq=1), 1, 0, MQTT5)
    size = len(packets(outgoing(qos=0).take(record, 0)[1])[0])
    client = outgoing(packet_bytes_max=size + 2, aliases=1, qos=0)
    for _ in range(2):
        packet = client.take(record, 0)[1]
        assert len(packet) <= size + 2
        found = decode(packet, V5)
        assert isinstance(found, PublishPacket)
        assert (found.topic, found.properties) == ("/a/b", {})
    client = outgoing(packet_bytes_max=size + 3, aliases=1, qos=0)
    found, again = (decode(client.take(record, 0)[1], V5) for _ in range(2))
    assert isinstance(found, PublishPacket)
    assert isinstance(again, PublishPacket)
    assert (found.topic, again.topic) == ("/a/b", "")
    assert found.properties == again.properties == {"topic_alias": 1}


class Told(Silent):
    """A talk that is told of what its client has missed."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    def missed(self, subject: str) -> None:
        """Once."""
        self.subjects.append(subject)


A = Message("/a/b", "x", epoch=1, seq=9)
REMOVED = Message("/a/b", "", epoch=1, seq=9, replace=True, removed=True)
UNSAFE = Message("/a/b", "x", epoch=1, seq=9, qos="standard")


def follower(qos: int, *, wants: bool = True, share: Share | None = None) -> tuple[Outgoing, MqttSession, Told]:
    """A client with a session that lasts."""
    session, told = MqttSession("publisher", V5, 60), Told()
    session.subscribe(Subscription(Filter(text="$share/g/#" if share else "#", qos=qos), ["/**"], 0, wants, share))
    return Outgoing(session, told, Open(), 100, 0, 0, 1 << 20), session, told


@pytest.mark.parametrize(
    ("record", "wants", "told"),
    [
        (encode_record(A, 1, 0, MQTT5, STAND_IN), True, True),
        (encode_record(A, 1, 0, MQTT5, STAND_IN), False, False),
        (encode_record(UNSAFE, 1, 0, MQTT5, STAND_IN), True, False),
        (encode_record(REMOVED, 1, 0, MQTT5, STAND_IN), False, True),
        (encode_gap("/a/b", 1, 1, 9, live=False), True, False),
        (encode_gap("/a/b", 1, 1, 9, live=True), True, False),
    ],
)
def test_nothing_leaves_behind_a_gap_that_nothing_tells(record: bytes, wants: bool, told: bool) -> None:
    live = encode_record(Message("/a/c", "y", epoch=1, seq=1), 2, 0, MQTT5)
    client, session, talk = follower(1, wants=wants)
    count, data = client.take(live + record + live, 0)
    assert count == 2 * len(live) + len(record)
    found = [decode(one, V5) for one in packets(data)]
    assert [one.topic for one in found if isinstance(one, PublishPacket)] == ["/a/c", "/a/b", "/a/c"][
        : 3 if told else 1
    ]
    assert talk.subjects == ([] if told else ["/a/b"])
    assert session.positions == {"/a/c": (1, 1)} | ({"/a/b": (1, 9)} if told else {})
    shared = SharedPackets()
    shared.read(live)
    assert shared.messages is not None
    assert (client.take_alike(shared.messages) is None) is not told


def test_who_takes_messages_as_they_come_has_missed_none() -> None:
    """With QoS 0, or as a member of a group in which others were there; it goes on where the subject is."""
    for client, session, talk in (follower(0), follower(1, share=Share("$share/g/#"))):
        assert client.take(encode_gap("/a/b", 1, 1, 9, live=False), 0)[1] == b""
        assert (talk.subjects, session.positions) == ([], {"/a/b": (1, 9)})


@pytest.mark.parametrize("kind", [STAND_IN, LIVE_STAND_IN])
def test_what_is_kept_from_all_is_kept_from_groups_and_nothing_retained_stands_for_it(kind: str) -> None:
    client, _, talk = follower(1, share=Share("$share/g/#"))
    assert client.take(encode_record(A, 1, 0, MQTT5, kind), 0)[1] == b""
    assert talk.subjects == (["/a/b"] if kind == LIVE_STAND_IN else [])


def test_what_has_no_topic_is_not_missed() -> None:
    client, _, talk = follower(1)
    assert client.take(encode_gap("/a/+", 1, 1, 9, live=True), 0)[1] == b""
    assert talk.subjects == []


def test_what_stands_for_messages_is_made_for_each_client_alone() -> None:
    shared = SharedPackets()
    shared.read(encode_record(REMOVED, 1, 0, MQTT5, STAND_IN))
    assert shared.packets is None
