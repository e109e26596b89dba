"""The header that a proxy in front of the sidecar sends, from the specification and not from the code under test."""

from __future__ import annotations

import ipaddress
import struct


def header(address: str, port: int, *, tlvs: bytes = b"") -> bytes:
    """PROXY protocol version 2, TCP, from ``address`` to an address of documentation."""
    source = ipaddress.ip_address(address)
    to = ipaddress.ip_address("192.0.2.1" if source.version == 4 else "2001:db8::1")
    body = source.packed + to.packed + struct.pack(">HH", port, 8800) + tlvs
    family = 0x11 if source.version == 4 else 0x21
    return b"\r\n\r\n\x00\r\nQUIT\n" + struct.pack(">BBH", 0x21, family, len(body)) + body


def line(address: str, port: int) -> bytes:
    """PROXY protocol version 1, from ``address`` to an address of documentation."""
    version = ipaddress.ip_address(address).version
    to = "192.0.2.1" if version == 4 else "2001:db8::1"
    return f"PROXY TCP{version} {address} {to} {port} 8800\r\n".encode()
