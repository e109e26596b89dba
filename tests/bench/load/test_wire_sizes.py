"""The table of bytes per message: ours against the frames that a client decodes, the others' by hand."""

from __future__ import annotations

import zlib

import pytest

from fastpath.bench.load import wire_sizes
from fastpath.core.protocol.codec import JSON, MSGPACK, Form, decode_server
from fastpath.core.protocol.messages import Data

F1, TICK, SPARSE = wire_sizes.SAMPLES


def by_name(sample: wire_sizes.Sample) -> dict[str, wire_sizes.Wired]:
    """The framings of one sample by their names."""
    return {wired.framing: wired for wired in wire_sizes.measure(sample)}


def test_the_samples_are_what_they_are_called() -> None:
    """140 bytes of content; four fields; one of the four."""
    assert (F1.own_bytes, len(F1.content), F1.fields) == (140, 140, {})
    assert len(TICK.fields) == 4
    assert SPARSE.fields.items() <= TICK.fields.items()
    assert len(SPARSE.fields) == 1


@pytest.mark.parametrize("form", [JSON, MSGPACK])
@pytest.mark.parametrize("sample", wire_sizes.SAMPLES, ids=lambda sample: sample.title)
def test_what_is_counted_is_what_a_client_decodes(sample: wire_sizes.Sample, form: Form) -> None:
    """The bytes are a whole message of the protocol."""
    data = decode_server(wire_sizes.fastpath(sample, form), form)

    assert isinstance(data, Data)
    assert (data.content, data.fields, data.seq) == (sample.content, sample.fields, wire_sizes.SEQ)


@pytest.mark.parametrize(
    ("framing", "f1", "tick", "sparse"),
    [
        # [17,123456,30000,"…"] and 4 bytes of WebSocket header, 2 for the short ones.
        ("Fastpath JSON", 140 + 20 + 4, 96, 45),
        # 0x94, sid 1, seq 5, t 3, str8 2, and the header.
        ("Fastpath MessagePack", 140 + 12 + 4, 70, 31),
        # {"push":{"channel":"stocks/us/IBM","pub":{"data":"…","offset":123456}}}
        ("Centrifugo JSON", 140 + 70 + 4, 150, 97),
        ("MQTT 3.1.1", 140 + 3 + 2 + 13 + 4, 97, 46),
        ("MQTT 5, topic alias", 140 + 3 + 2 + 1 + 3 + 4, 88, 37),
    ],
)
def test_bytes_on_the_wire(framing: str, f1: int, tick: int, sparse: int) -> None:
    """Exact, so that a change of the encoding shows here."""
    assert [by_name(sample)[framing].plain_bytes for sample in wire_sizes.SAMPLES] == [f1, tick, sparse]


def test_overhead_is_all_but_content_and_fields() -> None:
    """The header is part of it."""
    wired = by_name(SPARSE)["Fastpath MessagePack"]

    assert (wired.own_bytes, wired.overhead_bytes, wired.header_bytes) == (15, 16, 2)


@pytest.mark.parametrize(("by_id", "channel"), [(False, b"\x12\x0dstocks/us/IBM"), (True, b"\x08\x11")])
def test_centrifugos_protobuf_push(by_id: bool, channel: bytes) -> None:
    """Its fields as client.proto numbers them, written out by hand."""
    publication = b"\x22\x8c\x01" + F1.opaque + b"\x30\xc0\xc4\x07"
    push = channel + b"\x22" + bytes((len(publication) & 0x7F | 0x80, len(publication) >> 7)) + publication
    reply = b"\x22" + bytes((len(push) & 0x7F | 0x80, len(push) >> 7)) + push

    assert wire_sizes.centrifugo_protobuf(F1, by_id=by_id) == bytes((len(reply) & 0x7F | 0x80, len(reply) >> 7)) + reply


def test_the_mqtt_frames() -> None:
    """Type and flags, remaining length, topic or alias, payload."""
    assert wire_sizes.mqtt_3(SPARSE).startswith(b"\x30\x2a\x00\x0dstocks/us/IBM[")
    assert wire_sizes.mqtt_5(SPARSE).startswith(b"\x30\x21\x00\x00\x03\x23\x00\x11[")


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16_384, b"\x80\x80\x01")]
)
def test_lengths_of_seven_bits_a_byte(value: int, encoded: bytes) -> None:
    """MQTT's own examples (2.2.3)."""
    assert wire_sizes.varint(value) == encoded


def test_a_deflated_message_inflates_as_rfc_7692_says() -> None:
    """With the four bytes put back that the sender takes off."""
    payload = wire_sizes.fastpath(TICK, JSON)

    assert zlib.decompressobj(-15).decompress(wire_sizes.deflate(payload) + b"\0\0\xff\xff") == payload


def test_overhead_grows_with_the_sequence_number() -> None:
    """Standard quality, which has none, costs the least; MessagePack ends at 12 bytes beside the header of 4."""
    rows = wire_sizes.overheads_by_seq()

    assert rows[0] == (0, 19, 12)
    assert rows[-1] == (10_000_000, 26, 16)
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
