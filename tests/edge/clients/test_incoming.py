"""What is not a frame of the protocol: each kind ends its own connection with a code and a name, and no other's."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.edge.wire import BINARY, PING, TEXT, WireClient, masked, resident_bytes, undisturbed
from tests.support.sidecar import Sidecar

COMMAND_BYTES_MAX = (2 << 20) + (64 << 10)
"""FASTPATH_MESSAGE_BYTES_MAX at its default, twice for escapes, and room for the rest of a command."""

DEEP = 100_000


def msgpack(value: object) -> bytes:
    """MessagePack."""
    return msgspec.msgpack.encode(value)


CLOSING = {
    "over-long frame": ("json", masked(TEXT, b"")[:1] + b"\xff" + (1 << 40).to_bytes(8) + bytes(4), 1009, "too_big"),
    "just over": ("json", masked(TEXT, b" " * (COMMAND_BYTES_MAX + 1))[:20], 1009, "too_big"),
    "invalid UTF-8": ("json", masked(TEXT, b'{"op":"\xff"}'), 1007, "invalid_data"),
    "UTF-8 surrogate": ("json", masked(TEXT, b'{"op":"\xed\xa0\x80"}'), 1007, "invalid_data"),
    "reserved opcode": ("json", masked(3, b"x"), 1002, "protocol_error"),
    "reserved bit": ("json", masked(TEXT | 0x40, b"x"), 1002, "protocol_error"),
    "unmasked": ("json", b"\x81\x02{}", 1002, "protocol_error"),
    "continuation of nothing": ("json", masked(0, b"x"), 1002, "protocol_error"),
    "long ping": ("json", masked(PING, b"x" * 126), 1002, "protocol_error"),
    "close code of one byte": ("json", masked(8, b"\x03"), 1002, "protocol_error"),
    "garbage": ("json", b"\x00" * 64, 1002, "protocol_error"),
    "no JSON": ("json", masked(TEXT, b"hello"), 4500, "bad_message"),
    "empty": ("json", masked(TEXT, b""), 4500, "bad_message"),
    "cut JSON": ("json", masked(TEXT, b'{"op":"ping","id":1'), 4500, "bad_message"),
    "two in one": ("json", masked(TEXT, b'{"op":"ping","id":1}{"op":"ping","id":2}'), 4500, "bad_message"),
    "array": ("json", masked(TEXT, b'["ping",1]'), 4500, "bad_message"),
    "number": ("json", masked(TEXT, b"17"), 4500, "bad_message"),
    "null": ("json", masked(TEXT, b"null"), 4500, "bad_message"),
    "NaN": ("json", masked(TEXT, b'{"op":"ping","id":NaN}'), 4500, "bad_message"),
    "infinity": ("json", masked(TEXT, b'{"op":"ping","id":-Infinity}'), 4500, "bad_message"),
    "6000 digits": ("json", masked(TEXT, b'{"op":"ping","id":' + b"9" * 6000 + b"}"), 4500, "bad_message"),
    "deep JSON": ("json", masked(TEXT, b'{"op":"ping","id":1,"x":' + b"[" * DEEP), 4500, "bad_message"),
    "deep content": (
        "json",
        masked(TEXT, b'{"op":"publish","subject":"/a/b","content":' + b'{"b":' * DEEP + b"1" + b"}" * DEEP + b"}"),
        4500, "bad_message"),
    "binary frame": ("json", masked(BINARY, b'{"op":"ping","id":1}'), 4500, "bad_message"),
    "text frame": ("msgpack", masked(TEXT, b'{"op":"ping","id":1}'), 4500, "bad_message"),
    "no MessagePack": ("msgpack", masked(BINARY, b"\xc1"), 4500, "bad_message"),
    "cut MessagePack": ("msgpack", masked(BINARY, msgpack({"op": "ping", "id": 1})[:-1]), 4500, "bad_message"),
    "MessagePack array": ("msgpack", masked(BINARY, msgpack(["ping", 1])), 4500, "bad_message"),
    "MessagePack number": ("msgpack", masked(BINARY, b"\x05"), 4500, "bad_message"),
    "deep MessagePack": ("msgpack", masked(BINARY, b"\x83\xa2op\xa4ping\xa2id\x01\xa1x" + b"\x91" * DEEP), 4500,
                         "bad_message"),
    "map of 2**32 entries": ("msgpack", masked(BINARY, b"\xdf\xff\xff\xff\xff"), 4500, "bad_message"),
    "text of 2**32 bytes": ("msgpack", masked(BINARY, b"\x81\xa2op\xdb\xff\xff\xff\xff"), 4500, "bad_message"),
    "map as a key": ("msgpack", masked(BINARY, b"\x81\x81\x01\x01\x01"), 4500, "bad_message"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "data", "code", "name"), CLOSING.values(), ids=CLOSING)
def test_it_ends_its_own_connection(shared: Sidecar, form: str, data: bytes, code: int, name: str) -> None:
    with undisturbed(shared), WireClient(shared, form) as client:
        client.send(data)
        assert client.closed() == (code, name)
        assert client.rest() == b""


def test_a_message_in_fragments_has_the_same_limit(shared: Sidecar) -> None:
    with undisturbed(shared), WireClient(shared) as client:
        client.frame(TEXT, b'{"op":"ping","id":1,"x":"', final=False)
        chunk = b"x" * 65_536
        for _ in range(COMMAND_BYTES_MAX // len(chunk)):
            client.frame(0, chunk, final=False)
        assert client.silent(), "up to the limit it is collected"
        client.frame(0, chunk, final=False)
        assert client.closed() == (1009, "too_big")


def test_what_comes_before_the_fault_in_the_same_read_counts(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        client.send(masked(TEXT, b'{"op":"ping","id":1}') + masked(TEXT, b'{"op":"ping","id":2}') + b"\x00\x00")
        assert [client.answer("pong")["id"] for _ in range(2)] == [1, 2]
        assert client.closed() == (1002, "protocol_error")


def test_what_comes_after_the_fault_is_dropped(shared: Sidecar) -> None:
    with WireClient(shared) as client, WireClient(shared) as other:
        other.subscribe("/bad/after")
        client.send(masked(TEXT, b"[]") + masked(TEXT, b'{"op":"publish","subject":"/bad/after","content":"x"}'))
        assert client.closed() == (4500, "bad_message")
        assert other.quiet()


def test_the_reason_says_what_was_wrong(shared: Sidecar) -> None:
    with WireClient(shared) as client:
        client.frame(TEXT, b"[]")
        opcode, payload = client.next_frame()
        assert (opcode, payload[2:].decode()) == (8, "bad_message: a command is a map with the key op")


def test_a_flood_of_pings_is_answered_or_ends_as_a_slow_consumer(shared: Sidecar) -> None:
    with undisturbed(shared), WireClient(shared) as client:
        client.send(masked(PING, b"x") * 1000)
        client.say("ping")
        assert [client.next_frame() for _ in range(1000)] == [(10, b"x")] * 1000
        assert client.answer("pong")


def test_a_flood_of_pings_that_nobody_reads_is_bounded(shared: Sidecar) -> None:
    before = resident_bytes(shared.pid)
    with undisturbed(shared), WireClient(shared, receive_bytes=4096) as client:
        client.say("ping")
        flood = masked(PING, b"x" * 125) * 1000
        try:
            for _ in range(200):
                client.send(flood)
        except (ConnectionError, TimeoutError):
            pass
        assert client.closed() == (4001, "slow_consumer")
    assert resident_bytes(shared.pid) - before < 32 << 20


def test_a_flood_of_empty_fragments_ends(shared: Sidecar) -> None:
    with undisturbed(shared), WireClient(shared) as client:
        client.frame(TEXT, b"", final=False)
        try:
            for _ in range(20):
                client.send(masked(0, b"", final=False) * 10_000)
        except ConnectionError:
            pass
        assert client.closed()[0] in (1009, 4003)  # where the reading takes longer than one may wait to say who one is
