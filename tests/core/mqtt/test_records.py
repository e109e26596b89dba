"""Records: what waits for a client of MQTT, and what of a message is in a packet."""

from __future__ import annotations

import pytest

from fastpath.core.mqtt.decoding import decode
from fastpath.core.mqtt.packets import PublishPacket, Will
from fastpath.core.mqtt.publications import publish_command
from fastpath.core.mqtt.records import (
    ANSWER,
    ASSURED,
    EMPTY,
    GOODBYE,
    MARKS_MAX,
    RETAINED,
    SNAPSHOT,
    STORED,
    Marks,
    encode_answer,
    encode_goodbye,
    encode_record,
    kind_of,
    payload_of_record,
    read_message,
    split_records,
)
from fastpath.core.protocol.codec import MQTT, MQTT5, Form
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.core.wires.registry import wire_of


def message(content: str | bytes = "193.20", **rest: object) -> Message:
    """A numbered message of the subject /stocks/us/IBM."""
    return Message("/stocks/us/IBM", content, **{"epoch": 7, "seq": 41, "time": 1_000_000, **rest})  # type: ignore[arg-type]


@pytest.mark.parametrize(("form", "level"), [(MQTT, 4), (MQTT5, 5)])
def test_a_record_has_the_head_and_the_packet(form: Form, level: int) -> None:
    record = encode_record(message(), 17, 0, form)
    head = read_message(record)

    assert (head.sid, head.epoch, head.seq, head.flags) == (17, 7, 41, ASSURED | RETAINED)
    assert decode(head.packet, level) == PublishPacket(topic="/stocks/us/IBM", payload=b"193.20")
    assert wire_of(form).split(record) == [(record, 17)]


def test_records_are_split_and_known_by_their_kind() -> None:
    records = [encode_record(message(), 1, 0, MQTT5), encode_answer(b"x"), encode_goodbye(4001, "slow_consumer: a")]

    assert split_records(b"".join(records)) == records
    assert [record for record, _ in wire_of(MQTT5).split(b"".join(records))] == records
    assert [kind_of(one) for one in records[1:]] == [ANSWER, GOODBYE]
    assert payload_of_record(records[2])[2:] == b"slow_consumer: a"
    assert wire_of(MQTT5).split(records[1]) == [(records[1], -1)]


def test_the_encoding_makes_records_and_compresses_nothing() -> None:
    found = wire_of(MQTT, 15, 10)

    assert found.message(found.payload(message(), 1, 0, MQTT)) == encode_record(message(), 1, 0, MQTT)


def test_flags_of_what_is_stored_and_empty() -> None:
    record = read_message(encode_record(message("", qos="standard", retained=False), 1, 0, MQTT, "snapshot"))

    assert record.flags == SNAPSHOT | EMPTY


@pytest.mark.parametrize("form", [MQTT, MQTT5])
def test_of_a_removal_the_payload_is_empty_and_it_is_no_retained_message(form: Form) -> None:
    """Also where it stands in the place of a snapshot; its fields are properties, where there are any."""
    message = Message("/a/b", "", {"why": "sold"}, replace=True, removed=True)
    for kind, flags in (("", 0), ("recovered", STORED), ("historical", STORED), ("snapshot", STORED)):
        record = read_message(encode_record(message, 7, 0, form, kind))
        assert record.flags == flags | RETAINED | ASSURED
        assert record.packet.endswith(b"/a/b" if form == MQTT else b"\x00\x03why\x00\x04sold")


def test_fields_without_content_are_a_payload_where_there_are_no_properties() -> None:
    fields = {"bid": "1", "mqtt.content_type": "x"}

    old = decode(read_message(encode_record(message("", fields=fields), 1, 0, MQTT)).packet, 4)
    new = decode(read_message(encode_record(message("", fields=fields), 1, 0, MQTT5)).packet, 5)
    assert isinstance(old, PublishPacket)
    assert isinstance(new, PublishPacket)
    assert (old.payload, new.payload) == (b'{"bid":"1"}', b"")
    assert new.properties == {"user_property": [("bid", "1")], "content_type": "x"}


PROPERTIES = {
    "user_property": [("a", "1"), ("a", "2"), ("", "3"), ("mqtt.expires", "4"), ("b", "5")],
    "content_type": "text/plain",
    "correlation_data": b"\0\xff",
    "payload_format": 1,
    "message_expiry": 30,
    "response_topic": "answers/1",
}


@pytest.mark.parametrize("payload", [b"text", b"\xff\0", b""])
def test_what_a_client_publishes_comes_to_another_as_it_was(payload: bytes) -> None:
    packet = PublishPacket(topic="a/b", payload=payload, qos=1, retain=True, packet_id=9, properties=dict(PROPERTIES))
    command = publish_command(packet, 1, 5, 1_000_000)
    published = Message(command.subject, command.content, command.fields, reply_to=command.reply_to, time=1_000_000)

    found = decode(read_message(encode_record(published, 1, 0, MQTT5)).packet.replace(b"\x01\x01", b"\x01\x00"), 5)
    assert isinstance(found, PublishPacket)
    assert (found.topic, found.payload) == ("a/b", payload)
    assert found.properties == PROPERTIES | {"payload_format": 0}
    assert (command.publication, command.qos, command.retained) == (5, "guaranteed", True)


def test_a_will_is_a_publication() -> None:
    command = publish_command(Will(topic="/a/b", payload=b"gone"), 0, 0, 1)

    assert (command.subject, command.content, command.qos, command.retained) == ("/a/b", "gone", "standard", False)


def test_fields_that_no_property_can_be_are_left_out() -> None:
    fields = {
        "a": "x" * 65_535,
        "b": "x" * 65_536,
        "c": "\0",
        "d\0": "x",
        "e": b"\xff" * 30_000,
        "mqtt.content_type": "\0",
        "mqtt.correlation_data": b"x" * 65_536,
    }
    packet = decode(read_message(encode_record(message(fields=fields, reply_to="/a/+"), 1, 0, MQTT5)).packet, 5)
    assert isinstance(packet, PublishPacket)
    assert packet.properties == {"user_property": [("a", "x" * 65_535)]}


def test_a_message_is_of_use_for_no_longer_than_a_packet_can_say() -> None:
    head = read_message(encode_record(message(fields={"mqtt.expires": "999999999999999"}), 1, 0, MQTT5))
    assert decode(head.packet, 5).properties == {"message_expiry": 0xFFFFFFFF}  # type: ignore[union-attr]
    assert head.expires == 1_000_000 + 0xFFFFFFFF * 1000


@pytest.mark.parametrize(
    "subject", ["/a/+", "/a/b#", "/__mqtt__/%", "/__mqtt__/$x/y", "/__mqtt__/%/a/b", "/__mqtt__/%/__mqtt__/a"]
)
def test_what_is_published_to_a_subject_that_is_no_topic_has_no_packet(subject: str) -> None:
    record = encode_record(Message(subject, "x", epoch=7, seq=1), 1, 0, MQTT5)
    assert read_message(record).packet == b""
    assert split_records(record * 2) == [record, record]


def test_messages_without_a_number_are_told_apart_alike_by_all_workers() -> None:
    """By their subject, their time, and which of these they are; whatever else each process has encoded."""

    def marks(marking: Marks, *messages: Message) -> list[int]:
        return [marking.of(one) for one in messages]

    same = [Message("/a/b", "x", time=5, qos=STANDARD) for _ in range(3)]
    later = [Message("/a/b", "x", time=6, qos=STANDARD) for _ in range(2)]
    one, other = Marks(), Marks()
    marks(other, *(Message(f"/c/{number}", "", time=number, qos=STANDARD) for number in range(3 * MARKS_MAX)))
    found = marks(one, *same, *later)
    assert marks(other, *same, *later) == found
    assert len(set(found)) == 5
    assert one.of(later[-1]) == found[-1], "asked again for another version"
    assert other.kept <= MARKS_MAX + 1
