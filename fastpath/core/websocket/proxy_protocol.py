"""The header that a proxy sends before a connection's first byte: PROXY protocol, version 2 or 1.

The specification is HAProxy's ``proxy-protocol.txt``. Version 2 (section 2.2) has 12 bytes of signature, version and
command, family and transport, the length of what follows, the addresses, and further values (TLVs), which are not used
here. Version 1 (section 2.1) is a line of text: ``PROXY TCP4 192.0.2.7 192.0.2.1 51000 8800``.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from ..protocol.errors import FastpathError

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"

START_BYTES = 16
"""Signature, version and command, family and transport, length."""

REST_BYTES_MAX = 2048
"""Bytes that may follow the start: addresses have 216 bytes at most, TLVs some hundred; the specification has no
bound."""

_LOCAL, _PROXY = 0, 1
_ADDRESSES = {0x1: 12, 0x2: 36, 0x3: 216}
"""Bytes of the addresses of a family: IPv4, IPv6, unix."""

LINE_BYTES_MAX = 107
"""The longest line of version 1, with its end, as the specification counts it."""

_LINE_START = b"PROXY "
_FAMILIES: dict[str, type[IPv4Address | IPv6Address]] = {"TCP4": IPv4Address, "TCP6": IPv6Address}


class BadProxy(FastpathError):
    """No header of the version that is spoken here: the connection must be closed (section 2.2: "MUST be rejected")."""


class Proxied(NamedTuple):
    """A whole header. ``address`` is the client's; empty: the peer speaks for itself, as in a check of its health."""

    address: str
    port: int
    head_bytes: int


def parse_start(start: bytes) -> int:
    """Return how many bytes follow the 16 of ``start``; raise BadProxy. Fewer than 16 are looked at as far as they
    go."""
    if start[: len(SIGNATURE)] != SIGNATURE[: len(start)]:
        raise BadProxy("a connection of this port begins with a header of the proxy protocol, version 2")
    if len(start) > 12 and start[12] not in (0x20 | _LOCAL, 0x20 | _PROXY):
        raise BadProxy(f"version and command 0x{start[12]:02x} are not 0x20 or 0x21")
    if len(start) < START_BYTES:
        return 0
    count = int.from_bytes(start[14:16])
    if count > REST_BYTES_MAX:
        raise BadProxy(f"{count} bytes of addresses and TLVs are more than {REST_BYTES_MAX}")
    return count


def parse_proxy(buffer: bytes) -> Proxied | None:
    """Return the header at the start of ``buffer``, or None: then call again with more. Raises BadProxy as soon as it
    can be seen.

    A family that is not IP (unix, unspecified) and the command LOCAL leave the address empty: the specification has the
    receiver take the connection's own.
    """
    rest = parse_start(buffer[:START_BYTES])
    if len(buffer) < START_BYTES + rest:
        return None
    head_bytes = START_BYTES + rest
    family, transport = buffer[13] >> 4, buffer[13] & 0x0F
    if family > 3 or transport > 2:
        raise BadProxy(f"family and transport 0x{buffer[13]:02x} do not exist")
    if buffer[12] & 0x0F == _LOCAL:
        return Proxied("", 0, head_bytes)
    if rest < _ADDRESSES.get(family, 0):
        raise BadProxy(f"{rest} bytes are too few for the addresses of family {family}")
    body = buffer[START_BYTES:head_bytes]
    if family == 1:
        return Proxied(str(IPv4Address(body[:4])), int.from_bytes(body[8:10]), head_bytes)
    if family == 2:
        address = IPv6Address(body[:16])
        return Proxied(str(address.ipv4_mapped or address), int.from_bytes(body[32:34]), head_bytes)
    return Proxied("", 0, head_bytes)


def parse_line(buffer: bytes) -> Proxied | None:
    """Return the line of version 1 at the start of ``buffer``, or None: then call again with more. Raises BadProxy as
    soon as it can be seen.

    ``UNKNOWN`` leaves the address empty, whatever follows it.
    """
    if buffer[: len(_LINE_START)] != _LINE_START[: len(buffer)]:
        raise BadProxy("a connection of this port begins with a line of the proxy protocol, version 1")
    end = buffer.find(b"\n", 0, LINE_BYTES_MAX)
    if end < 0:
        if len(buffer) >= LINE_BYTES_MAX:
            raise BadProxy(f"the line of the proxy protocol has more than {LINE_BYTES_MAX} bytes")
        return None
    if buffer[end - 1 : end] != b"\r":
        raise BadProxy("the line of the proxy protocol does not end with CR LF")
    words = buffer[: end - 1].decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":
        return Proxied("", 0, end + 1)
    if words[1] not in _FAMILIES or len(words) != 6:
        raise BadProxy("the line of the proxy protocol is no TCP4, TCP6 or UNKNOWN with two addresses and two ports")
    source, _ = (_address(words[1], text) for text in words[2:4])
    port, _ = map(_port, words[4:])
    return Proxied(source, port, end + 1)


def _address(family: str, text: str) -> str:
    """Return an address of the line as it is written everywhere else; raise BadProxy."""
    try:
        if "%" in text:
            raise ValueError
        address = _FAMILIES[family](text)
    except ValueError:
        raise BadProxy(f"{text!r} is no address of {family}") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _port(text: str) -> int:
    """Read a port of the line, without zeros before it; raise BadProxy."""
    if not (text.isascii() and text.isdecimal() and text == str(int(text)) and int(text) < 1 << 16):
        raise BadProxy(f"{text!r} is no port")
    return int(text)
