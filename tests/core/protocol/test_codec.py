"""The server's codec against the test vectors: both directions, both forms, byte for byte."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fastpath.core.protocol import codec
from fastpath.core.protocol.errors import BadFrame, InvalidMessage
from fastpath.core.protocol.messages import Data
from fastpath.core.protocol.packets import Unpacker, pack, read_publication
from tests.vectors import build
from tests.vectors.reading import FOLDER, Vector, changed, each_form, vectors

REFUSED = (BadFrame, InvalidMessage)


def decoded(data: bytes, form: codec.Form, direction: str) -> Any:
    """The value that a frame stands for."""
    return codec.decode_command(data, form) if direction == "client" else codec.decode_server(data, form)


def encoded(value: Any, form: codec.Form) -> bytes:
    """The frame that stands for a value."""
    return codec.encode_data(value, form) if isinstance(value, Data) else codec.encode(value, form)


def packets(body: bytes) -> list[list[Any]]:
    """The packets in one frame of the publisher port; raises what the port would close with."""
    unpacker = Unpacker(4 << 20)
    result = unpacker.feed(len(body).to_bytes(4, "big") + body)
    if unpacker.error is not None:
        raise unpacker.error
    return result


def test_the_files_are_what_the_cases_say() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == build.files()


@pytest.mark.parametrize(("vector", "form"), each_form("client", "server"), ids=str)
def test_decoded_and_encoded_it_is_the_same_bytes(vector: Vector, form: codec.Form) -> None:
    data = vector.forms[form]
    assert encoded(decoded(data, form, vector.direction), form) == data


@pytest.mark.parametrize("vector", vectors("server"), ids=str)
def test_both_forms_mean_the_same(vector: Vector) -> None:
    values = [decoded(data, form, vector.direction) for form, data in vector.forms.items()]
    assert values[0] == values[1]


@pytest.mark.parametrize(("vector", "form"), each_form("client", "server"), ids=str)
def test_no_changed_byte_goes_unnoticed(vector: Vector, form: codec.Form) -> None:
    data = vector.forms[form]
    value = decoded(data, form, vector.direction)
    for other in changed(data):
        try:
            assert decoded(other, form, vector.direction) != value, other
        except REFUSED:
            continue


@pytest.mark.parametrize("vector", vectors("publisher", "publisher server"), ids=str)
def test_packets_of_the_publisher_port(vector: Vector) -> None:
    body = vector.forms["msgpack"]
    [packet] = packets(body)
    assert pack(packet) == len(body).to_bytes(4, "big") + body
    for other in changed(body):
        try:
            assert packets(other) != [packet], other
        except BadFrame:
            continue


def test_the_rows_of_a_batch_are_read_as_publications() -> None:
    batch = next(vector for vector in vectors("publisher") if vector.name == "batch")
    [(_, _, rows)] = packets(batch.forms["msgpack"])
    plain, text, binary, full = map(read_publication, rows)
    assert (plain.subject, plain.content, plain.fields, plain.retained, plain.qos) == (
        "/a/b", "x", None, True, "guaranteed")  # fmt: skip
    assert text.fields == {"bid": "193.19", "raw": b"\x00\xff"}
    assert (binary.content, binary.retained) == (bytes(range(256)), False)
    assert (full.qos, full.reply_to, full.closure, full.publication, full.as_of) == (
        "standard", "/inbox/ann", "c-17", 71, "2026-01-01T00:00:00Z")  # fmt: skip


def test_a_frame_of_the_client_in_another_order_of_keys_is_still_understood() -> None:
    ping = codec.decode_command(b'{"id":6,"later":[1],"op":"ping"}', "json")
    assert codec.encode(ping, "json") == b'{"op":"ping","id":6}'
    assert msgspec.msgpack.decode(codec.encode(ping, "msgpack")) == {"op": "ping", "id": 6}
