"""The header of the proxy protocol, version 2 or 1: whole, a byte at a time, with what follows; and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.websocket.proxy_protocol import (
    LINE_BYTES_MAX,
    REST_BYTES_MAX,
    SIGNATURE,
    BadProxy,
    Proxied,
    parse_line,
    parse_proxy,
)
from tests.support.proxied import header, line

V4 = header("192.0.2.7", 51000)
V6 = header("2001:db8::7", 443)

GOOD = {
    "IPv4": (V4, "192.0.2.7", 51000),
    "IPv6": (V6, "2001:db8::7", 443),
    "IPv4 in IPv6": (header("::ffff:192.0.2.9", 1), "192.0.2.9", 1),
    "datagrams": (SIGNATURE + b"\x21\x12\x00\x0c" + V4[16:], "192.0.2.7", 51000),
    "with TLVs": (header("192.0.2.7", 80, tlvs=b"\x04\x00\x03abc"), "192.0.2.7", 80),
    "local": (SIGNATURE + b"\x20\x00\x00\x00", "", 0),
    "local, with addresses": (SIGNATURE + b"\x20\x11\x00\x0c" + bytes(12), "", 0),
    "unspecified": (SIGNATURE + b"\x21\x00\x00\x02xy", "", 0),
    "unix": (SIGNATURE + b"\x21\x31\x00\xd8" + b"/a".ljust(216, b"\0"), "", 0),
}


@pytest.mark.parametrize(("data", "address", "port"), GOOD.values(), ids=GOOD)
def test_good_headers(data: bytes, address: str, port: int) -> None:
    wanted = Proxied(address, port, len(data))
    assert parse_proxy(data) == wanted
    assert parse_proxy(data + b"GET /ws") == wanted
    for size in range(len(data)):
        assert parse_proxy(data[:size]) is None


BAD = {
    "version 1": (b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n", "begins with a header"),
    "a request": (b"GET", "begins with a header"),
    "TLS": (b"\x16\x03\x01", "begins with a header"),
    "the signature's last byte": (SIGNATURE[:-1] + b"\r", "begins with a header"),
    "version 3": (SIGNATURE + b"\x31", "0x31 are not 0x20 or 0x21"),
    "command 2": (SIGNATURE + b"\x22", "0x22 are not 0x20 or 0x21"),
    "family 4": (SIGNATURE + b"\x21\x41\x00\x00", "0x41 do not exist"),
    "transport 3": (SIGNATURE + b"\x21\x13\x00\x0c" + bytes(12), "0x13 do not exist"),
    "short IPv4": (SIGNATURE + b"\x21\x11\x00\x0b" + bytes(11), "11 bytes are too few"),
    "short IPv6": (SIGNATURE + b"\x21\x21\x00\x0c" + bytes(12), "12 bytes are too few"),
    "too long": (SIGNATURE + b"\x21\x11" + (REST_BYTES_MAX + 1).to_bytes(2), "more than 2048"),
}


@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD)
def test_bad_headers_are_refused_as_soon_as_it_can_be_seen(data: bytes, words: str) -> None:
    with pytest.raises(BadProxy) as error:
        parse_proxy(data)
    assert words in str(error.value)


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda rest: SIGNATURE + rest))
def test_anything_else_is_a_header_or_named(data: bytes) -> None:
    try:
        found = parse_proxy(data)
    except BadProxy:
        return
    assert found is None or found.head_bytes <= len(data)


LONGEST = b"PROXY UNKNOWN " + b"f" * (LINE_BYTES_MAX - 16) + b"\r\n"

GOOD_LINES = {
    "IPv4": (line("192.0.2.7", 51000), "192.0.2.7", 51000),
    "IPv6": (line("2001:db8::7", 443), "2001:db8::7", 443),
    "IPv6 in full": (b"PROXY TCP6 2001:DB8:0:0:0:0:0:7 ::1 0 65535\r\n", "2001:db8::7", 0),
    "IPv4 in IPv6": (b"PROXY TCP6 ::ffff:192.0.2.9 ::ffff:192.0.2.1 1 2\r\n", "192.0.2.9", 1),
    "unknown": (b"PROXY UNKNOWN\r\n", "", 0),
    "unknown, with addresses": (b"PROXY UNKNOWN 192.0.2.7 192.0.2.1 1 2\r\n", "", 0),
    "the longest": (LONGEST, "", 0),
}


@pytest.mark.parametrize(("data", "address", "port"), GOOD_LINES.values(), ids=GOOD_LINES)
def test_good_lines(data: bytes, address: str, port: int) -> None:
    wanted = Proxied(address, port, len(data))
    assert parse_line(data) == wanted
    assert parse_line(data + b"GET /ws\r\n") == wanted
    for size in range(len(data)):
        assert parse_line(data[:size]) is None


BAD_LINES = {
    "version 2": (V4, "begins with a line"),
    "a request": (b"GET /ws HTTP/1.1\r\n", "begins with a line"),
    "TLS": (b"\x16\x03\x01", "begins with a line"),
    "small letters": (b"proxy", "begins with a line"),
    "no CR": (b"PROXY UNKNOWN\n", "CR LF"),
    "nothing": (b"PROXY \r\n", "no TCP4"),
    "another family": (b"PROXY UDP4 192.0.2.7 192.0.2.1 1 2\r\n", "no TCP4"),
    "a word more": (b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n", "no TCP4"),
    "two blanks": (b"PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n", "no TCP4"),
    "a word less": (b"PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n", "no TCP4"),
    "IPv6 as IPv4": (b"PROXY TCP4 2001:db8::7 192.0.2.1 1 2\r\n", "is no address of TCP4"),
    "IPv4 as IPv6": (b"PROXY TCP6 192.0.2.7 2001:db8::1 1 2\r\n", "is no address of TCP6"),
    "zeros in an address": (b"PROXY TCP4 192.0.2.007 192.0.2.1 1 2\r\n", "is no address of TCP4"),
    "a zone": (b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", "is no address of TCP6"),
    "a bad destination": (b"PROXY TCP4 192.0.2.7 192.0.2 1 2\r\n", "is no address of TCP4"),
    "a port too high": (b"PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n", "'65536' is no port"),
    "zeros in a port": (b"PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n", "'01' is no port"),
    "a port of other digits": ("PROXY TCP4 192.0.2.7 192.0.2.1 1 \xb2\r\n".encode("latin-1"), "is no port"),
    "too long": (LONGEST[:-2] + b"f\r\n", "more than 107"),
    "endless": (b"PROXY UNKNOWN " + b"f" * 100, "more than 107"),
}


@pytest.mark.parametrize(("data", "words"), BAD_LINES.values(), ids=BAD_LINES)
def test_bad_lines_are_refused_as_soon_as_it_can_be_seen(data: bytes, words: str) -> None:
    with pytest.raises(BadProxy) as error:
        parse_line(data)
    assert words in str(error.value)


@given(st.binary(max_size=120) | st.binary(max_size=120).map(lambda rest: b"PROXY TCP4 " + rest + b"\r\n"))
def test_anything_else_is_a_line_or_named(data: bytes) -> None:
    try:
        found = parse_line(data)
    except BadProxy:
        return
    assert found is None or found.head_bytes <= min(len(data), LINE_BYTES_MAX)
