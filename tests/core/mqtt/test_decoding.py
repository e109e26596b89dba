"""Bytes as packets: in any pieces, within bounds, and nothing that the standard forbids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.mqtt.decoding import Splitter, decode
from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.packets import AnyPacket, Filter, PublishPacket, SubscribePacket, UnsubscribePacket
from fastpath.core.mqtt.reasons import V3, V5, MqttError, Reason
from tests.support.core.packets import PACKETS, VECTORS


@given(st.lists(PACKETS, max_size=5), st.data())
def test_a_stream_in_any_pieces_is_the_same_packets(packets: list[AnyPacket], data: st.DataObject) -> None:
    whole = [encode(packet, 5) for packet in packets]
    stream = b"".join(whole)
    splitter, found, at = Splitter(1 << 20), [], 0
    while at < len(stream):
        count = data.draw(st.integers(1, 40))
        found += splitter.feed(stream[at : at + count])
        at += count

    assert found == whole
    assert not splitter.waits


def test_one_byte_at_a_time() -> None:
    for level, text, packet in VECTORS:
        data, splitter = bytes.fromhex(text), Splitter(1000)
        found = [one for byte in data for one in splitter.feed(bytes([byte]))]

        assert [decode(one, level) for one in found] == [packet]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x30\xff\xff\xff\xff\x01", Reason.MALFORMED),  # five bytes of length
        (b"\x30\xff\xff\xff\x7f", Reason.PACKET_TOO_LARGE),  # a bomb: 256 MB are announced
        (b"\x30\xe9\x07", Reason.PACKET_TOO_LARGE),  # one byte too many
        (b"\x30\x80\x00", Reason.MALFORMED),  # longer than it need be
    ],
)
def test_lengths_are_bounded_before_anything_waits(data: bytes, code: Reason) -> None:
    splitter = Splitter(1000)

    assert splitter.feed(b"\xc0\0" + data) == [b"\xc0\0"]
    assert splitter.error is not None
    assert splitter.error.code == code
    assert splitter.feed(b"\xc0\0") == []


MALFORMED = [
    (4, "00 00", Reason.MALFORMED),  # reserved type
    (4, "f0 00", Reason.MALFORMED),  # AUTH in 3.1.1
    (4, "36 05 0001 61 0001", Reason.MALFORMED),  # QoS 3
    (4, "38 03 0001 61", Reason.MALFORMED),  # DUP with QoS 0
    (4, "32 05 0001 61 0000", Reason.PROTOCOL_ERROR),  # packet id 0
    (4, "30 02 0000", Reason.PROTOCOL_ERROR),  # no topic
    (4, "30 03 0001 2b", Reason.TOPIC_INVALID),  # a wildcard in a topic
    (4, "30 05 0003 61", Reason.MALFORMED),  # a topic beyond the end
    (4, "30 04 0002 c328", Reason.MALFORMED),  # no UTF-8
    (4, "30 05 0003 eda080", Reason.MALFORMED),  # a surrogate
    (4, "30 04 0002 6100", Reason.MALFORMED),  # a null character
    (4, "41 02 0001", Reason.MALFORMED),  # flags of PUBACK
    (4, "60 02 0001", Reason.MALFORMED),  # flags of PUBREL
    (4, "40 02 0000", Reason.PROTOCOL_ERROR),
    (4, "40 03 0001 00", Reason.MALFORMED),  # more than there may be
    (4, "80 06 0001 0001 61 00", Reason.MALFORMED),  # flags of SUBSCRIBE
    (4, "82 02 0001", Reason.PROTOCOL_ERROR),  # no filter
    (4, "82 06 0001 0001 61 03", Reason.MALFORMED),  # QoS 3
    (4, "82 06 0001 0001 61 04", Reason.MALFORMED),  # options of version 5
    (5, "82 07 0001 00 0001 61 30", Reason.MALFORMED),  # retain handling 3
    (5, "82 09 0001 02 0b00 0001 61 00", Reason.PROTOCOL_ERROR),  # identifier 0
    (4, "a2 02 0001", Reason.PROTOCOL_ERROR),
    (4, "c0 01 00", Reason.MALFORMED),
    (4, "c1 00", Reason.MALFORMED),
    (4, "e0 01 00", Reason.MALFORMED),  # a reason in 3.1.1
    (4, "10 0d 0004 4d515458 04 02 003c 0001 61", Reason.UNSUPPORTED_VERSION),  # MQTX
    (4, "10 0d 0004 4d515454 06 02 003c 0001 61", Reason.UNSUPPORTED_VERSION),
    (4, "10 0d 0004 4d515454 04 03 003c 0001 61", Reason.MALFORMED),  # the reserved flag
    (4, "10 0d 0004 4d515454 04 0a 003c 0001 61", Reason.MALFORMED),  # will QoS without a will
    (4, "10 0d 0004 4d515454 04 42 003c 0001 61", Reason.MALFORMED),  # a password without a user
    (4, "10 0e 0004 4d515454 04 02 003c 0001 61 00", Reason.MALFORMED),
    (5, "10 16 0004 4d515454 05 02 003c 08 11 00000001 21 0000 0001 61", Reason.PROTOCOL_ERROR),  # receive maximum 0
    (5, "10 18 0004 4d515454 05 02 003c 0a 11 00000001 11 00000001 0001 61", Reason.PROTOCOL_ERROR),  # twice
    (5, "30 06 0001 61 02 1700", Reason.MALFORMED),  # a property of another packet
    (5, "30 06 0001 61 02 7f00", Reason.MALFORMED),  # no property
    (5, "30 06 0001 61 05 0100", Reason.MALFORMED),  # properties beyond the end
    (5, "30 06 0001 61 02 0102", Reason.PROTOCOL_ERROR),  # payload format 2
    (5, "30 07 0001 61 02 0101 ff", Reason.PAYLOAD_FORMAT_INVALID),
]


@pytest.mark.parametrize(("level", "text", "code"), MALFORMED)
def test_what_the_standard_forbids_has_its_reason(level: int, text: str, code: Reason) -> None:
    with pytest.raises(MqttError) as raised:
        decode(bytes.fromhex(text), level)

    assert raised.value.code == code


@given(st.binary(min_size=2, max_size=60), st.sampled_from([4, 5]))
def test_any_bytes_are_a_packet_or_an_error(data: bytes, level: int) -> None:
    try:
        for packet in Splitter(100).feed(data):
            decode(packet, level)
    except MqttError:
        pass


@pytest.mark.parametrize("level", [V3, V5])
def test_a_packet_has_a_bounded_number_of_filters_and_properties(level: int) -> None:
    filters = [Filter(text=str(n)) for n in range(1001)]
    packets: list[AnyPacket] = [
        SubscribePacket(packet_id=1, filters=filters),
        UnsubscribePacket(packet_id=1, filters=[one.text for one in filters]),
    ]
    if level == V5:
        packets.append(PublishPacket(topic="a", payload=b"", properties={"user_property": [("a", "")] * 1001}))
    for packet in packets:
        with pytest.raises(MqttError) as error:
            decode(encode(packet, level), level)
        assert error.value.code == Reason.QUOTA_EXCEEDED
