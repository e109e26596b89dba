"""Packets as bytes: vectors, round trips, and the same bytes from another implementation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from fastpath.core.mqtt.decoding import Splitter, decode
from fastpath.core.mqtt.encoding import encode
from fastpath.core.mqtt.fields import properties as encode_properties
from fastpath.core.mqtt.packets import AnyPacket, PublishPacket
from fastpath.core.mqtt.reasons import V3, V5
from tests.support.core.packets import MESSAGE, PACKETS, PUBLISHES, VECTORS, some


@pytest.mark.parametrize(("level", "text", "packet"), VECTORS)
def test_the_bytes_of_the_standard(level: int, text: str, packet: AnyPacket) -> None:
    data = bytes.fromhex(text)

    assert encode(packet, level) == data
    assert decode(data, level) == packet


@given(PACKETS)
def test_what_is_encoded_comes_back(packet: AnyPacket) -> None:
    data = encode(packet, V5)

    assert Splitter(1 << 20).feed(data) == [data]
    assert decode(data, V5) == packet


@given(PUBLISHES)
def test_the_same_of_version_3(packet: PublishPacket) -> None:
    packet.properties = {}

    assert decode(encode(packet, V3), V3) == packet


@given(some(MESSAGE))
def test_another_implementation_reads_and_writes_the_same_properties(found: dict[str, Any]) -> None:
    names = {
        "payload_format": "PayloadFormatIndicator",
        "message_expiry": "MessageExpiryInterval",
        "content_type": "ContentType",
        "response_topic": "ResponseTopic",
        "correlation_data": "CorrelationData",
        "user_property": "UserProperty",
    }
    theirs = PahoProperties(PacketTypes.PUBLISH)
    theirs.unpack(encode_properties(found))

    assert {name: getattr(theirs, names[name]) for name in found} == found
    data = b"\x30" + bytes([len(body := b"\0\1a" + theirs.pack())]) + body if len(theirs.pack()) < 120 else b""
    if data:
        packet = decode(data, V5)
        assert isinstance(packet, PublishPacket)
        assert packet.properties == found
