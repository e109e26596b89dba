"""permessage-deflate (RFC 7692): offers that are taken, what is inflated and what is refused, in parts and whole."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.delivery.wire import terms_of
from fastpath.core.protocol.errors import Close, FrameError
from fastpath.core.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    SKIM,
    TEXT,
    Event,
    FrameReader,
    encode_binary,
    encode_text,
    split_frames,
)
from fastpath.core.websocket.permessage_deflate import (
    CHUNK_BYTES,
    SLICE_BYTES,
    WINDOW_BITS_MAX,
    Inflation,
    compress,
    inflate,
    negotiate,
)
from fastpath.core.wires.registry import wire_of
from tests.support.core.frames import masked

BYTES_MAX = 70_000
RSV1 = 0x40
ANSWER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
TAIL = b"\x00\x00\xff\xff"


def deflated(payload: bytes, level: int = 6, window_bits: int = 15, flush: int = zlib.Z_SYNC_FLUSH) -> bytes:
    """The payload as a client compresses it (RFC 7692 7.2.1)."""
    stream = zlib.compressobj(level, zlib.DEFLATED, -window_bits)
    data = stream.compress(payload) + stream.flush(flush)
    return data.removesuffix(TAIL) if flush == zlib.Z_SYNC_FLUSH else data + b"\x00"


def run(chunks: list[bytes], deflate: bool = True, bytes_max: int = BYTES_MAX) -> tuple[list[Event], int | None]:
    """The events of the chunks, and the code of the error if there was one."""
    reader = FrameReader(bytes_max, deflate=deflate)
    events = []
    for chunk in chunks:
        events += reader.feed(chunk)
        while reader.inflating:
            events += reader.feed(b"")
    return events, reader.error.code if reader.error else None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in parts."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[edges[at] : edges[at + 1]] for at in range(len(edges) - 1)]


# Negotiation (RFC 7692 5.1, 7.1)

OFFERS = {
    "": None,
    "permessage-deflate": (15, ANSWER),
    "Permessage-Deflate": (15, ANSWER),
    "permessage-deflate; client_max_window_bits": (15, ANSWER),
    "permessage-deflate; client_max_window_bits=10": (15, ANSWER),
    "permessage-deflate; client_max_window_bits=8": (15, ANSWER),
    'permessage-deflate; client_max_window_bits="10"': (15, ANSWER),
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover": (15, ANSWER),
    "permessage-deflate;server_max_window_bits=10": (10, f"{ANSWER}; server_max_window_bits=10"),
    "permessage-deflate; server_max_window_bits=15": (15, f"{ANSWER}; server_max_window_bits=15"),
    'permessage-deflate; server_max_window_bits="9"': (9, f"{ANSWER}; server_max_window_bits=9"),
    "x-webkit-deflate-frame": None,
    "x-webkit-deflate-frame, permessage-deflate": (15, ANSWER),
    "permessage-bzip2; level=9, permessage-deflate": (15, ANSWER),
    # Several offers, the first that can be taken counts.
    "permessage-deflate; server_max_window_bits=10, permessage-deflate": (10, f"{ANSWER}; server_max_window_bits=10"),
    "permessage-deflate; server_max_window_bits=8, permessage-deflate": (15, ANSWER),
    "permessage-deflate; unknown, permessage-deflate; client_max_window_bits": (15, ANSWER),
    # Offers that are declined; the connection is opened without compression.
    "permessage-deflate; server_max_window_bits=8": None,  # zlib has no such window without a header
    "permessage-deflate; server_max_window_bits=16": None,
    "permessage-deflate; server_max_window_bits=010": None,
    "permessage-deflate; server_max_window_bits=-9": None,
    "permessage-deflate; server_max_window_bits=": None,
    "permessage-deflate; server_max_window_bits": None,
    "permessage-deflate; client_max_window_bits=7": None,
    "permessage-deflate; client_max_window_bits=16": None,
    "permessage-deflate; client_max_window_bits=x": None,
    "permessage-deflate; server_no_context_takeover=1": None,
    "permessage-deflate; client_no_context_takeover=true": None,
    "permessage-deflate; client_no_context_takeover; client_no_context_takeover": None,
    "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10": None,
    "permessage-deflate; mode=fast": None,
    "permessage-deflate; ;": None,
    ";;,,==": None,
}


@pytest.mark.parametrize("offers", OFFERS)
def test_an_offer(offers: str) -> None:
    assert negotiate(offers) == OFFERS[offers]


@given(st.text(st.sampled_from('permessage-deflate;, ="_server_max_window_bits10é\x00'), max_size=80))
def test_no_header_is_an_error(offers: str) -> None:
    negotiate(offers)
    negotiate("permessage-deflate; " + offers)


# What the server sends

TEXTS = st.one_of(st.text(max_size=300).map(str.encode), st.binary(max_size=300), st.just(b"ab" * 20_000))


@given(TEXTS, st.integers(9, WINDOW_BITS_MAX))
def test_what_is_sent_inflates_in_the_window_agreed_on(payload: bytes, bits: int) -> None:
    stream = zlib.decompressobj(-bits)
    assert stream.decompress(compress(payload, bits) + TAIL) == payload
    assert not stream.unused_data
    assert inflate(compress(payload, bits), len(payload)) == payload


def test_the_same_message_is_the_same_bytes() -> None:
    """Nothing of one message is left in the next one."""
    first, second = b"one and one and one", bytes(range(256)) * 300
    alone = compress(first, 15)
    compress(second, 15)
    assert compress(first, 15) == alone


def test_only_what_gains_by_it_is_compressed() -> None:
    noise = bytes((place * 97 + place // 7 * 31) & 0xFF for place in range(120))
    for form, encode, opcode in (("json", encode_text, TEXT), ("msgpack", encode_binary, BINARY)):
        assert encode(noise, 15) == encode(noise) == bytes((0x80 | opcode, 120)) + noise
        short = encode(b"ab" * 60, 15)
        assert short[0] == 0x80 | RSV1 | opcode
        assert inflate(short[2:], 120) == b"ab" * 60
        assert list(split_frames(short + encode(noise, 15))) == [short, encode(noise)]
        frame = wire_of(form, 15, 100).message
        assert frame(b"a" * 99) == encode(b"a" * 99), "below the listener's size"
        assert frame(b"a" * 100)[0] & RSV1
        assert wire_of(form).message(b"a" * 1000) == encode(b"a" * 1000)


def test_wires_of_one_make_are_one_object() -> None:
    assert terms_of(wire_of("json", 15, 100), 20, 8192) is terms_of(wire_of("json", 15, 100), 20, 8192)
    assert terms_of(wire_of("json"), 0, 0).wire is terms_of(wire_of("json"), 20, 100).wire
    assert wire_of("json", 15, 100) is not wire_of("json", 10, 100)


# What a client sends

HELLO = bytes.fromhex("f248cdc9c90700")
LONG = b"0123456789" * 4000
CONTENT = '{"op":"ping","note":"€uro"}'.encode()

VALID: dict[str, tuple[bytes, list[Event]]] = {
    "7.2.3.1 a message": (masked(0xC1, HELLO), [(TEXT, b"Hello")]),
    "7.2.3.1 in two fragments": (masked(0x41, HELLO[:3]) + masked(0x80, HELLO[3:]), [(TEXT, b"Hello")]),
    "7.2.3.3 a block without compression": (
        masked(0xC1, bytes.fromhex("000500faff48656c6c6f00")),
        [(TEXT, b"Hello")],
    ),
    "7.2.3.4 a last block": (masked(0xC1, bytes.fromhex("f348cdc9c9070000")), [(TEXT, b"Hello")]),
    "7.2.3.4 a last block that ends with the message": (
        masked(0xC1, bytes.fromhex("f348cdc9c90700")),
        [(TEXT, b"Hello")],
    ),
    "7.2.3.5 two blocks": (
        masked(0xC1, bytes.fromhex("f248050000 00ffffcac9c90700".replace(" ", ""))),
        [(TEXT, b"Hello")],
    ),
    "7.2.3.6 an empty message": (masked(0xC1, b"\x00"), [(TEXT, b"")]),
    "an empty message of no bytes": (masked(0xC2, b""), [(BINARY, b"")]),
    "6 a message that is not compressed": (masked(0x81, b"Hello") + masked(0xC1, HELLO), [(TEXT, b"Hello")] * 2),
    "a ping between the fragments": (
        masked(0x41, HELLO[:1]) + masked(0x89, b"?") + masked(0x00, b"") + masked(0x80, HELLO[1:]),
        [(PING, b"?"), (TEXT, b"Hello")],
    ),
    "7.2.2 the largest window": (masked(0xC2, deflated(LONG)), [(BINARY, LONG)]),
    "stored blocks, of the whole size": (masked(0xC2, deflated(LONG, level=0)), [(BINARY, LONG)]),
    "a character cut by the end of a fragment": (
        masked(0x41, deflated(CONTENT)[:20]) + masked(0x80, deflated(CONTENT)[20:]),
        [(TEXT, CONTENT)],
    ),
    "finished streams behind one another": (
        masked(0xC2, deflated(b"ab", flush=zlib.Z_FINISH)[:-1] * 3 + b"\x00"),
        [(BINARY, b"ababab")],
    ),
    "each message by itself": (masked(0xC1, HELLO) * 3, [(TEXT, b"Hello")] * 3),
    "a close after it": (masked(0xC1, HELLO) + masked(0x88, b""), [(TEXT, b"Hello"), (CLOSE, b"")]),
}

PROTOCOL, DATA, SIZE = Close.PROTOCOL_ERROR, Close.INVALID_DATA, Close.TOO_BIG

INVALID: dict[str, tuple[bytes, int]] = {
    "6.1 RSV1 on a continuation": (masked(0x41, HELLO[:3]) + masked(0xC0, HELLO[3:]), PROTOCOL),
    "6.1 RSV1 on a continuation of a plain message": (masked(0x01, b"x") + masked(0xC0, b"y"), PROTOCOL),
    "6 RSV1 on a ping": (masked(0xC9, b""), PROTOCOL),
    "6 RSV1 on a close": (masked(0xC8, b""), PROTOCOL),
    "RSV2 beside it": (masked(0xE1, HELLO), PROTOCOL),
    "RSV3 alone": (masked(0x91, b"x"), PROTOCOL),
    "RSV1 on a reserved opcode": (masked(0xC3, HELLO), PROTOCOL),
    "a reserved kind of block": (masked(0xC1, b"\x07\x00"), DATA),
    "a reference to before the message": (masked(0xC1, b"\x02\x13\x00\x00"), DATA),
    "a message that ends in the middle": (masked(0xC2, deflated(LONG)[:-20]), DATA),
    "a stored block that ends in the middle": (masked(0xC2, deflated(LONG, level=0)[:-20]), DATA),
    "no stream at all": (masked(0xC2, b"\xff" * 40), DATA),
    "text that is not UTF-8": (masked(0xC1, deflated(b"abc\xff")), DATA),
    "text that ends in the middle of a character": (masked(0xC1, deflated("€".encode()[:2])), DATA),
    "over the limit when inflated": (masked(0xC2, deflated(bytes(BYTES_MAX + 1))), SIZE),
    "over the limit in fragments": (
        masked(0x42, deflated(bytes(BYTES_MAX + 1))[:9]) + masked(0x80, deflated(bytes(BYTES_MAX + 1))[9:]),
        SIZE,
    ),
    "over the limit as it comes": (masked(0x42, b"\x00\x00\x00\xff\xff" * 9000) + masked(0x80, TAIL * 7000), SIZE),
    "a stream of nothing but ends": (masked(0xC2, b"\x03\x00" * 2000), DATA),
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    data, events = VALID[name]
    assert run([data]) == (events, None)
    assert run([data[place : place + 1] for place in range(len(data))]) == (events, None)
    assert run([data + data[:1]] if not name.startswith("a close") else [data]) == (events, None)


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    data, code = INVALID[name]
    assert run([data])[1] == code
    assert run([data[place : place + 7] for place in range(0, len(data), 7)])[1] == code
    assert run([masked(0xC1, HELLO) + data])[0][0] == (TEXT, b"Hello"), "what came before counts"


def test_without_an_agreement_the_bit_is_reserved() -> None:
    assert run([masked(0xC1, HELLO)], deflate=False) == ([], PROTOCOL)
    assert run([masked(0x81, b"x") + masked(0xC1, HELLO)], deflate=False) == ([(TEXT, b"x")], PROTOCOL)


def test_the_limit_itself_is_allowed() -> None:
    for level in (0, 1, 9):
        assert run([masked(0xC2, deflated(bytes(BYTES_MAX), level))]) == ([(BINARY, bytes(BYTES_MAX))], None)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.text(max_size=200), st.sampled_from(["é" * 300, "", "x" * 900])),
            st.sampled_from([-1, 0, 1, 6, 9]),
            st.integers(9, 15),
            st.lists(st.integers(0, 1 << 17), max_size=4),
            st.booleans(),
        ),
        max_size=4,
    ),
    st.lists(st.integers(0, 1 << 18), max_size=6),
)
def test_however_it_is_fragmented_and_cut(
    messages: list[tuple[str, int, int, list[int], bool]], places: list[int]
) -> None:
    stream, expected = b"", []
    for text, level, bits, fragments, ping in messages:
        payload = text.encode()
        body = payload if level < 0 else deflated(payload, level, bits)
        parts = cut(body, fragments)
        for at, part in enumerate(parts):
            first = (TEXT | (RSV1 if level >= 0 else 0)) if at == 0 else CONTINUATION
            stream += masked(first | (0x80 if at == len(parts) - 1 else 0), part)
            if ping and at < len(parts) - 1:
                stream += masked(0x89, b"p")
                expected.append((PING, b"p"))
        expected.append((TEXT, payload))
    assert run(cut(stream, places)) == (expected, None)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=3))
def test_no_bytes_do_harm(body: bytes, places: list[int]) -> None:
    """Anything inflates within the limit or is refused, and the outcome does not depend on the cuts."""
    data = masked(0xC2, body)
    events, code = run([data], bytes_max=1000)
    assert (code is None) == (len(events) == 1)
    assert all(len(payload) <= 1000 for _, payload in events)
    assert code in (None, DATA, SIZE)
    assert run(cut(data, places), bytes_max=1000) == (events, code)


MESSAGES = {
    "zeros": bytes(900_000),
    "a JSON array of the same objects": b'[{"symbol":"AAPL","bid":1.5,"ask":1.6}]' * 20_000,
    "what does not compress": random.Random(1).randbytes(400_000),
    "both by turns": (random.Random(2).randbytes(20_000) + bytes(80_000)) * 5,
    "a slice": b"a" * SLICE_BYTES,
    "a slice and one": b"a" * (SLICE_BYTES + 1),
}


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_any_ratio_is_inflated_in_steps(name: str, level: int) -> None:
    """Each makes a slice at most, of a chunk at most; what stands behind it waits, and comes in its order."""
    message = MESSAGES[name]
    payload = deflated(message, level)
    inflation, steps = Inflation(payload, len(message)), 1
    while (whole := inflation.step()) is None:
        steps += 1
    assert whole == message
    assert steps >= max(len(message) // SLICE_BYTES, len(payload) // CHUNK_BYTES)
    assert steps <= 3 + len(message) // SLICE_BYTES + len(payload) // CHUNK_BYTES

    reader = FrameReader(len(message), deflate=True)
    events = reader.feed(masked(TEXT | 0x80, b"before") + masked(0xC2, payload) + masked(TEXT | 0x80, b"behind"))
    while reader.inflating:
        assert events == [(TEXT, b"before")]
        events += reader.feed(b"")
    assert events == [(TEXT, b"before"), (BINARY, message), (TEXT, b"behind")]


def test_a_message_that_waits_for_its_steps_holds_only_what_came() -> None:
    payload = masked(0xC2, deflated(bytes(1 << 20), 9))
    readers = [FrameReader(1 << 20, deflate=True) for _ in range(50)]
    tracemalloc.start()
    for reader in readers:
        assert reader.feed(payload) == []
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(reader.inflating for reader in readers)
    assert held < 50 * 4096


def test_nobody_wants_it_any_more() -> None:
    """The connection ends while a message is inflated: that goes no further, and the close frame behind it is read."""
    reader = FrameReader(1 << 20, deflate=True)
    reader.feed(masked(0xC2, deflated(bytes(1 << 20), 9)) + masked(0x88, b""))
    reader.deflate = SKIM
    assert reader.feed(b"") == [(BINARY, b""), (CLOSE, b"")]


def test_a_bomb_costs_the_limit_and_no_more() -> None:
    """A GiB of zeros in a MiB: what is held is bounded by the limit of a message, not by what it claims to be."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(256)) + stream.flush(zlib.Z_SYNC_FLUSH)
    data = masked(0xC2, bomb)
    bytes_max = 1 << 20
    tracemalloc.start()
    events, code = run([data[place : place + 65536] for place in range(0, len(data), 65536)], bytes_max=bytes_max)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (events, code) == ([], SIZE)
    assert peak < 4 * bytes_max
    with pytest.raises(FrameError) as refused:
        inflate(bomb, 1000)
    assert refused.value.code == SIZE
