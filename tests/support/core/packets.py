"""Packets of MQTT: vectors of the standard, and whatever can be said."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fastpath.core.mqtt.packets import (
    Ack,
    AnyPacket,
    Auth,
    Connack,
    ConnectPacket,
    Disconnect,
    Filter,
    Pingreq,
    Pingresp,
    PublishPacket,
    Suback,
    SubscribePacket,
    Type,
    Unsuback,
    UnsubscribePacket,
    Will,
)

VECTORS: list[tuple[int, str, AnyPacket]] = [
    (4, "10 0d 0004 4d515454 04 02 003c 0001 61", ConnectPacket(level=4, client_id="a", keep_alive=60)),
    (5, "10 13 0004 4d515454 05 02 003c 05 11 0000000a 0001 61",
     ConnectPacket(level=5, client_id="a", keep_alive=60, properties={"session_expiry": 10})),
    (4, "20 02 01 00", Connack(code=0, session_present=True)),
    (5, "20 06 00 86 03 21 0014", Connack(code=0x86, properties={"receive_maximum": 20})),
    (4, "30 07 0003 612f62 6869", PublishPacket(topic="a/b", payload=b"hi")),
    (4, "3b 09 0003 612f62 000a 6869",
     PublishPacket(topic="a/b", payload=b"hi", qos=1, dup=True, retain=True, packet_id=10)),
    (5, "32 0c 0003 612f62 000a 02 0101 6869",
     PublishPacket(topic="a/b", payload=b"hi", qos=1, packet_id=10, properties={"payload_format": 1})),
    (4, "40 02 000a", Ack(type=Type.PUBACK, packet_id=10)),
    (5, "40 03 000a 10", Ack(type=Type.PUBACK, packet_id=10, code=0x10)),
    (5, "62 02 000a", Ack(type=Type.PUBREL, packet_id=10)),
    (4, "82 08 000a 0003 612f23 01", SubscribePacket(packet_id=10, filters=[Filter(text="a/#", qos=1)])),
    (5, "82 0b 000a 02 0b05 0003 612f23 2d", SubscribePacket(
        packet_id=10, filters=[Filter(text="a/#", qos=1, no_local=True, as_published=True, handling=2)],
        properties={"subscription_identifier": 5})),
    (4, "90 04 000a 0180", Suback(packet_id=10, codes=[1, 0x80])),
    (4, "a2 07 000a 0003 612f23", UnsubscribePacket(packet_id=10, filters=["a/#"])),
    (5, "b0 04 000a 00 11", Unsuback(packet_id=10, codes=[0x11])),
    (4, "c0 00", Pingreq()),
    (4, "d0 00", Pingresp()),
    (4, "e0 00", Disconnect()),
    (5, "e0 01 04", Disconnect(code=4)),
    (5, "f0 02 19 00", Auth(code=0x19)),
    (5, "f0 06 18 04 15 0001 78", Auth(code=0x18, properties={"authentication_method": "x"})),
]  # fmt: skip

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
TOPICS = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=40)
IDS = st.integers(1, 65535)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3)
U32, U16 = st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)
MESSAGE = {
    "payload_format": st.just(0),
    "message_expiry": U32,
    "content_type": TEXTS,
    "response_topic": TOPICS,
    "correlation_data": st.binary(max_size=20),
    "user_property": PAIRS,
}
CONNECT = {
    "session_expiry": U32,
    "receive_maximum": IDS,
    "maximum_packet_size": st.integers(1, 2**32 - 1),
    "topic_alias_maximum": U16,
    "request_problem_information": st.integers(0, 1),
    "request_response_information": st.integers(0, 1),
    "authentication_method": TEXTS,
    "user_property": PAIRS,
}


def some(table: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the properties."""
    return st.fixed_dictionaries({}, optional=table)


WILLS = st.builds(
    Will,
    topic=TOPICS,
    payload=st.binary(max_size=20),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    properties=some({**MESSAGE, "will_delay": U32}),
)
PUBLISHES = st.integers(0, 2).flatmap(
    lambda qos: st.builds(
        PublishPacket,
        topic=TOPICS,
        payload=st.binary(max_size=300),
        qos=st.just(qos),
        retain=st.booleans(),
        dup=st.booleans() if qos else st.just(False),
        packet_id=IDS if qos else st.just(0),
        properties=some(
            {**MESSAGE, "topic_alias": IDS, "subscription_identifier": st.lists(st.integers(1, 268435455), min_size=1)}
        ),
    )
)
REASONS = some({"reason_string": TEXTS, "user_property": PAIRS})
PACKETS: st.SearchStrategy[AnyPacket] = st.one_of(
    st.builds(
        ConnectPacket,
        level=st.just(5),
        client_id=TEXTS,
        clean=st.booleans(),
        keep_alive=U16,
        user=st.none() | TEXTS,
        password=st.none() | st.binary(max_size=20),
        will=st.none() | WILLS,
        properties=some(CONNECT),
    ),
    PUBLISHES,
    st.builds(Ack, type=st.sampled_from([4, 5, 6, 7]), packet_id=IDS, code=st.integers(0, 255), properties=REASONS),
    st.builds(
        SubscribePacket,
        packet_id=IDS,
        filters=st.lists(
            st.builds(
                Filter,
                text=TEXTS,
                qos=st.integers(0, 2),
                no_local=st.booleans(),
                as_published=st.booleans(),
                handling=st.integers(0, 2),
            ),
            min_size=1,
            max_size=4,
        ),
        properties=some({"subscription_identifier": st.integers(1, 268435455), "user_property": PAIRS}),
    ),
    st.builds(Suback, packet_id=IDS, codes=st.lists(st.integers(0, 255), max_size=4), properties=REASONS),
    st.builds(UnsubscribePacket, packet_id=IDS, filters=st.lists(TEXTS, min_size=1, max_size=4)),
    st.builds(Unsuback, packet_id=IDS, codes=st.lists(st.integers(0, 255), max_size=4), properties=REASONS),
    st.builds(Disconnect, code=st.integers(0, 255), properties=REASONS),
    st.just(Pingreq()),
    st.just(Pingresp()),
)
