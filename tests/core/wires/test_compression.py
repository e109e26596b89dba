"""Events as gzip: pieces that come out as they went in, whoever begins where."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.wires.compression import GZIP_HEAD, accepts_gzip, pack


def read(*pieces: bytes) -> list[bytes]:
    """What a reader has after each piece of the stream."""
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert stream.decompress(GZIP_HEAD) == b""
    return [stream.decompress(piece) for piece in pieces]


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=10), st.integers(1, 300))
def test_each_piece_is_whole_when_it_has_come(pieces: list[bytes], deflate_bytes: int) -> None:
    assert read(*(pack(piece, deflate_bytes) for piece in pieces)) == pieces


def test_large_pieces() -> None:
    piece = bytes(range(256)) * 1024
    for deflate_bytes in (1, 1 << 30):
        assert read(pack(b"first", 1), pack(piece, deflate_bytes), pack(b"last", 1)) == [b"first", piece, b"last"]
    assert len(pack(piece, 1)) < len(piece) // 10
    assert len(pack(piece, 1 << 30)) == len(piece) + 5 * 5


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("identity, br", False),
        ("*", False),
        (";;,,=", False),
    ],
)
def test_who_takes_it(header: str, takes: bool) -> None:
    assert accepts_gzip(header) == takes
