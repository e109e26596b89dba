"""The header of the proxy protocol, version 2: whole, a byte at a time, with what follows; and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.websocket.proxy_protocol import REST_BYTES_MAX, SIGNATURE, BadProxy, Proxied, parse_proxy
from tests.support.proxied import header

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
