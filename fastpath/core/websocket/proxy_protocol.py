"""The header that a proxy sends before a connection's first byte: PROXY protocol, version 2.

The specification is HAProxy's ``proxy-protocol.txt``, section 2.2: 12 bytes of signature, version and command, family
and transport, the length of what follows, the addresses, and further values (TLVs), which are not used here.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from ..protocol.errors import FastpathError

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"

START_BYTES = 16
"""Signature, version and command, family and transport, length."""

REST_BYTES_MAX = 2048
"""What may follow the start: addresses have 216 bytes at most, TLVs some hundred; the specification has no bound."""

_LOCAL, _PROXY = 0, 1
_ADDRESSES = {0x1: 12, 0x2: 36, 0x3: 216}
"""Bytes of the addresses of a family: IPv4, IPv6, unix."""


class BadProxy(FastpathError):
    """No header of version 2: the connection must be closed (section 2.2: "MUST be rejected")."""


class Proxied(NamedTuple):
    """A whole header. ``address`` is the client's; empty: the peer speaks for itself, as in a check of its health."""

    address: str
    port: int
    head_bytes: int


def parse_start(start: bytes) -> int:
    """How many bytes follow the 16 of ``start``; raises BadProxy. Fewer than 16 are looked at as far as they go."""
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
    """The header at the start of ``buffer``, or None: then call again with more.

    Raises BadProxy as soon as it can be seen. A family that is not IP (unix, unspecified) and the command LOCAL leave
    the address empty: the specification has the receiver take the connection's own.
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
