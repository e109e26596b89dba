"""The server's side of RFC 6455 framing: vectors by section, fed whole, byte by byte and with bytes after."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.errors import Close
from fastpath.core.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Event,
    FrameReader,
    encode_frame,
    split_frames,
    unmask,
)
from fastpath.core.websocket.masking import unmask_slowly
from tests.support.core.frames import KEY, masked

EURO = "€".encode()
BYTES_MAX = 70_000
FRAGMENTS_MAX = 4


def final(opcode: int, payload: bytes = b"") -> bytes:
    return masked(0x80 | opcode, payload)


def run(chunks: list[bytes], bytes_max: int = BYTES_MAX) -> tuple[list[Event], int | None]:
    """The events of the chunks and the code of the error, if there was one."""
    reader = FrameReader(bytes_max, FRAGMENTS_MAX)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events, reader.error.code if reader.error else None


def singly(data: bytes) -> list[bytes]:
    return [data[place : place + 1] for place in range(len(data))]


VALID: dict[str, tuple[bytes, list[Event]]] = {
    "5.7 a masked text": (bytes.fromhex("818537fa213d7f9f4d5158"), [(TEXT, b"Hello")]),
    "5.7 a masked pong": (bytes.fromhex("8a8537fa213d7f9f4d5158"), [(PONG, b"Hello")]),
    "5.7 a fragmented text": (masked(TEXT, b"Hel") + final(CONTINUATION, b"lo"), [(TEXT, b"Hello")]),
    "5.7 256 bytes": (final(BINARY, bytes(256)), [(BINARY, bytes(256))]),
    "5.7 64 KiB": (final(BINARY, bytes(1 << 16)), [(BINARY, bytes(1 << 16))]),
    "5.2 125 bytes": (final(BINARY, b"x" * 125), [(BINARY, b"x" * 125)]),
    "5.2 126 bytes": (final(TEXT, b"x" * 126), [(TEXT, b"x" * 126)]),
    "5.2 the last 16-bit length": (final(BINARY, b"x" * 65535), [(BINARY, b"x" * 65535)]),
    "5.2 empty text": (final(TEXT), [(TEXT, b"")]),
    "5.2 empty ping": (final(PING), [(PING, b"")]),
    "5.3 a key of zeros": (masked(0x81, b"plain", bytes(4)), [(TEXT, b"plain")]),
    "5.4 a ping between fragments": (
        masked(BINARY, b"a") + final(PING, b"?") + masked(CONTINUATION, b"b") + final(CONTINUATION, b"c"),
        [(PING, b"?"), (BINARY, b"abc")],
    ),
    "5.4 empty fragments": (
        masked(TEXT) + masked(CONTINUATION) + masked(CONTINUATION, b"x") + final(CONTINUATION),
        [(TEXT, b"x")],
    ),
    "5.4 two fragmented messages": (
        (masked(TEXT, b"x") + final(CONTINUATION, b"y")) * 2,
        [(TEXT, b"xy"), (TEXT, b"xy")],
    ),
    "5.5 a ping of 125 bytes": (final(PING, b"p" * 125), [(PING, b"p" * 125)]),
    "5.6 several messages": (
        final(TEXT, b"1") + final(BINARY, b"\xff") + final(TEXT, EURO),
        [(TEXT, b"1"), (BINARY, b"\xff"), (TEXT, EURO)],
    ),
    "5.6 a character cut by fragments": (
        masked(TEXT, EURO[:1]) + masked(CONTINUATION, EURO[1:2]) + final(CONTINUATION, EURO[2:]),
        [(TEXT, EURO)],
    ),
    "5.6 plain text after a cut character": (
        masked(TEXT, b"a" + EURO[:2]) + final(CONTINUATION, EURO[2:] + b"z"),
        [(TEXT, b"a" + EURO + b"z")],
    ),
    "5.6 the last code point": (final(TEXT, "\U0010ffff".encode()), [(TEXT, "\U0010ffff".encode())]),
    "5.5.1 an empty close": (final(CLOSE), [(CLOSE, b"")]),
    "5.5.1 a close with a reason": (final(CLOSE, b"\x03\xe8" + EURO), [(CLOSE, b"\x03\xe8" + EURO)]),
    "1.4 nothing is read after a close": (final(CLOSE) + final(TEXT, b"no") + b"\xff\xff", [(CLOSE, b"")]),
    "7.4 a code of the protocol": (final(CLOSE, (4505).to_bytes(2)), [(CLOSE, (4505).to_bytes(2))]),
    "5.4 a close inside a message": (masked(TEXT, b"x") + final(CLOSE), [(CLOSE, b"")]),
}

PROTOCOL, DATA, SIZE = Close.PROTOCOL_ERROR, Close.INVALID_DATA, Close.TOO_BIG

INVALID: dict[str, tuple[bytes, int]] = {
    "5.1 an unmasked frame": (b"\x81\x05Hello", PROTOCOL),
    "5.1 an unmasked empty frame": (b"\x81\x00", PROTOCOL),
    "5.2 RSV1": (masked(0xC1, b"x"), PROTOCOL),
    "5.2 RSV2": (masked(0xA1, b"x"), PROTOCOL),
    "5.2 RSV3 on a ping": (masked(0x99), PROTOCOL),
    **{f"5.2 opcode {opcode}": (final(opcode), PROTOCOL) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "5.2 16 bits where 7 do": (b"\x82\xfe\x00\x7d" + KEY + bytes(125), PROTOCOL),
    "5.2 64 bits where 16 do": (b"\x82\xff" + (65535).to_bytes(8) + KEY, PROTOCOL),
    "5.2 64 bits with the first set": (b"\x82\xff\x80" + bytes(7) + KEY, PROTOCOL),
    "5.4 a continuation of nothing": (final(CONTINUATION, b"x"), PROTOCOL),
    "5.4 a continuation after the end": (final(TEXT, b"x") + final(CONTINUATION, b"x"), PROTOCOL),
    "5.4 a message inside a message": (masked(TEXT, b"x") + final(TEXT, b"y"), PROTOCOL),
    "5.4 a fragmented ping": (masked(PING, b"x"), PROTOCOL),
    "5.5 a ping of 126 bytes": (final(PING, bytes(126)), PROTOCOL),
    "5.5 a close of 64 KiB": (final(CLOSE, bytes(1 << 16)), PROTOCOL),
    "5.5.1 half a code": (final(CLOSE, b"\x03"), PROTOCOL),
    "5.5.1 a reason that is no UTF-8": (final(CLOSE, b"\x03\xe8\xff"), DATA),
    "5.5.1 a cut reason": (final(CLOSE, b"\x03\xe8" + EURO[:2]), DATA),
    **{
        f"7.4 code {code}": (final(CLOSE, code.to_bytes(2)), PROTOCOL)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
    },
    "8.1 a short text": (final(TEXT, b"x\xff"), DATA),
    "8.1 a long text": (final(TEXT, b"x" * 9000 + b"\xff"), DATA),
    "8.1 a surrogate": (final(TEXT, b"\xed\xa0\x80"), DATA),
    "8.1 past the last code point": (final(TEXT, b"\xf4\x90\x80\x80"), DATA),
    "8.1 an overlong slash": (final(TEXT, b"\xc0\xaf"), DATA),
    "8.1 the text ends inside a character": (final(TEXT, EURO[:2]), DATA),
    "8.1 the fragments end inside a character": (masked(TEXT, EURO[:2]) + final(CONTINUATION), DATA),
    "8.1 a fragment does not go on": (masked(TEXT, EURO[:2]) + masked(CONTINUATION, b"x"), DATA),
    "10.4 a frame over the bound": (final(BINARY, bytes(BYTES_MAX + 1)), SIZE),
    "10.4 a frame of 2^62 bytes": (b"\x82\xff\x40" + bytes(7) + KEY, SIZE),
    "10.4 fragments over the bound": (masked(BINARY, bytes(BYTES_MAX)) + final(CONTINUATION, b"x"), SIZE),
    "10.4 too many fragments": (masked(BINARY) + masked(CONTINUATION) * FRAGMENTS_MAX, SIZE),
}


@pytest.mark.parametrize("name", VALID)
def test_valid(name: str) -> None:
    data, events = VALID[name]

    assert run([data]) == (events, None)
    assert run(singly(data)) == (events, None)


@pytest.mark.parametrize("name", VALID)
def test_valid_with_bytes_after_it(name: str) -> None:
    data, events = VALID[name]
    after = [] if events[-1][0] == CLOSE else [(PING, b"after")]

    assert run([data + final(PING, b"after")]) == (events + after, None)
    assert run([data + final(PING, b"after")[:-1]]) == (events, None)


@pytest.mark.parametrize("name", INVALID)
def test_invalid(name: str) -> None:
    """What came before the violation counts, what comes after it does not."""
    data, code = INVALID[name]
    before, after = final(TEXT, b"before"), final(TEXT, b"after")

    together = before + data + after
    for chunks in ([data], [data + after], [before + data], [before, data, after], singly(together)):
        events, error = run(chunks)
        assert error == code
        assert (TEXT, b"after") not in events
        assert ((TEXT, b"before") in events) == chunks[0].startswith(before[: len(chunks[0])])


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",  # a reserved bit
        b"\x83",  # a reserved opcode
        b"\x80",  # a continuation of nothing
        b"\x09",  # a fragmented ping
        b"\x81\x05",  # no mask
        b"\x82\xff\x00\x00\x00\x00\x7f\xff\xff\xff",  # over the bound; the key is not there yet
        masked(TEXT, b"x" * 9 + b"\xff" + b"x" * 9)[:-9],  # an unfinished frame
        masked(TEXT, b"x" * 9 + b"\xf4\x90" + b"x" * 9)[:-9],  # a sequence that no further byte can mend
    ],
)
def test_fails_at_the_first_wrong_byte(data: bytes) -> None:
    for chunks in ([data], singly(data)):
        reader = FrameReader(BYTES_MAX)
        for chunk in chunks:
            assert reader.error is None
            reader.feed(chunk)
        assert reader.error is not None
        assert reader.error.reason in str(reader.error)


def test_bounds_are_inclusive() -> None:
    assert run([final(BINARY, bytes(20))], 20) == ([(BINARY, bytes(20))], None)
    assert run([final(BINARY, bytes(21))], 20) == ([], Close.TOO_BIG)
    assert run([final(PING, bytes(21))], 20) == ([(PING, bytes(21))], None)
    assert run([masked(BINARY) + masked(CONTINUATION) * (FRAGMENTS_MAX - 2) + final(CONTINUATION)]) == (
        [(BINARY, b"")],
        None,
    )


def test_an_idle_reader_is_small() -> None:
    """Tens of thousands of connections wait at any time: between messages a reader keeps nothing."""
    reader = FrameReader()
    for data in (b"", final(TEXT, b"x"), *singly(masked(TEXT, EURO) + final(PING) + final(CONTINUATION))):
        reader.feed(data)

    assert reader._partial is None
    assert sys.getsizeof(reader) < 120


def test_an_error_holds_no_stack() -> None:
    reader = FrameReader()
    reader.feed(final(TEXT, b"\xff"))

    assert reader.error is not None
    assert reader.error.__traceback__ is None
    assert reader.error.__context__ is None


@pytest.mark.parametrize("xor", [unmask, unmask_slowly])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 125, 126, 4095, 4096, 4097, 4099, 70_001])
def test_unmask_is_its_own_inverse(size: int, xor: Callable[[bytes, bytes], bytes]) -> None:
    plain = bytes(place * 7 & 0xFF for place in range(size))
    coded = xor(plain, KEY)

    assert coded == bytes(byte ^ KEY[place & 3] for place, byte in enumerate(plain))
    assert xor(coded, KEY) == plain


@pytest.mark.parametrize("size", [*range(6), 123, 124, 125, 126, 127, 128, 65_535])
def test_a_message_that_is_all_of_a_read(size: int) -> None:
    """The way that most reads take, and where its two headers meet."""
    text = b"a" * size
    assert FrameReader().feed(final(TEXT, text)) == [(TEXT, text)]
    too_big = FrameReader(size - 1)
    assert too_big.feed(final(TEXT, text)) == []
    assert too_big.error is not None


@pytest.mark.parametrize("length", [0, 117, 124, 125])
def test_a_length_in_a_longer_form_is_refused_also_alone(length: int) -> None:
    reader = FrameReader()
    assert reader.feed(b"\x81\xfe" + length.to_bytes(2) + KEY + unmask(b"a" * length, KEY)) == []
    assert reader.error is not None


@pytest.mark.parametrize(
    ("opcode", "payload", "head"),
    [
        (TEXT, b"Hello", "8105"),  # 5.7
        (PING, b"Hello", "8905"),  # 5.7
        (BINARY, bytes(256), "827e0100"),  # 5.7
        (BINARY, bytes(1 << 16), "827f0000000000010000"),  # 5.7
        (TEXT, b"", "8100"),
        (TEXT, bytes(125), "817d"),
        (TEXT, bytes(126), "817e007e"),
        (TEXT, bytes(65535), "817effff"),
        (PONG, bytes(125), "8a7d"),
    ],
)
def test_encode_frame(opcode: int, payload: bytes, head: str) -> None:
    frame = encode_frame(opcode, payload)

    assert frame == bytes.fromhex(head) + payload
    assert list(split_frames(frame * 3)) == [frame] * 3


@pytest.mark.parametrize("opcode", [CLOSE, PING, PONG])
def test_a_long_control_frame_is_not_encoded(opcode: int) -> None:
    with pytest.raises(ValueError, match="at most 125 bytes, not 126"):
        encode_frame(opcode, bytes(126))


@pytest.mark.parametrize(
    "data",
    [
        b"\x81",
        b"\x81\x05Hell",
        b"\x81\x00\x81",
        b"\x82\x7e\x01",
        b"\x82\x7f" + bytes(7),
        final(TEXT, b"masked"),
    ],
)
def test_split_frames_wants_whole_unmasked_frames(data: bytes) -> None:
    assert list(split_frames(b"")) == []
    with pytest.raises(ValueError, match="no whole unmasked frame"):
        list(split_frames(data))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


PAYLOADS = st.one_of(st.binary(max_size=200), st.text(max_size=80).map(str.encode), st.just(b"x" * 5000))
FRAMES = st.builds(
    masked,
    st.one_of(st.sampled_from([0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88]), st.integers(0, 255)),
    PAYLOADS,
    st.binary(min_size=4, max_size=4),
)
STREAMS = st.one_of(st.lists(FRAMES, max_size=6).map(b"".join), st.binary(max_size=300))
UNTIMED = settings(deadline=None)  # The machine may be busy.
PLACES = st.lists(st.integers(0, 1 << 16), max_size=12)


@UNTIMED
@given(STREAMS, PLACES)
def test_the_cuts_of_the_network_change_nothing(data: bytes, places: list[int]) -> None:
    whole = run([data], 6000)

    assert run(cut(data, places), 6000) == whole
    assert run(singly(data), 6000) == whole


@UNTIMED
@given(STREAMS, PLACES)
def test_a_reader_never_holds_more_than_its_bound(data: bytes, places: list[int]) -> None:
    reader = FrameReader(1000, FRAGMENTS_MAX)
    for chunk in cut(data, places):
        reader.feed(chunk)
        if reader._partial is not None:
            assert len(reader._partial.body) <= 1000
            assert len(reader._partial.rest) < 131
            assert len(reader._partial.tail) < 4


MESSAGES = st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.text(max_size=300), st.integers(1, 50)), max_size=4)


@UNTIMED
@given(MESSAGES, PLACES)
def test_fragments_become_the_message_again(messages: list[tuple[int, str, int]], places: list[int]) -> None:
    data = b""
    for opcode, text, width in messages:
        plain = text.encode()
        parts = [plain[place : place + width] for place in range(0, len(plain), width)] or [b""]
        for number, part in enumerate(parts):
            first = (0x80 if number == len(parts) - 1 else 0) | (CONTINUATION if number else opcode)
            data += masked(first, part)
    reader = FrameReader()

    events = [event for chunk in cut(data, places) for event in reader.feed(chunk)]

    assert reader.error is None
    assert events == [(opcode, text.encode()) for opcode, text, _ in messages]


@given(st.binary(max_size=200))
def test_split_frames_of_anything(data: bytes) -> None:
    try:
        frames = list(split_frames(data))
    except ValueError:
        return
    assert b"".join(frames) == data
