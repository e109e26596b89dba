"""Frames as a client sends them, from RFC 6455 and not from the code under test."""

from __future__ import annotations

KEY = bytes.fromhex("37fa213d")


def masked(first: int, payload: bytes = b"", key: bytes = KEY) -> bytes:
    """A client's frame, its first byte given as it is (FIN, reserved bits, opcode)."""
    size = len(payload)
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((first, 0xFE)) + size.to_bytes(2)
    else:
        head = bytes((first, 0xFF)) + size.to_bytes(8)
    return head + key + bytes(byte ^ key[place & 3] for place, byte in enumerate(payload))
