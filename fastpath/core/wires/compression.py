"""A stream of events as gzip (RFC 1952) whose pieces are compressed by themselves, once for all who are sent them.

No piece refers to one before it, so that a stream costs no memory for it, and whoever begins later is sent the same
bytes. What is small stays as it is, in a block of deflate that is stored (RFC 1951 3.2.4). A stream has no end that is
foreseen: when its connection ends, the checksum that closes a file is missing, and readers of streams do not ask for
it.
"""

from __future__ import annotations

from functools import lru_cache

from ..websocket.permessage_deflate import TAIL, WINDOW_BITS_MAX, compress

GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The first bytes of the stream: deflate, without a name, a time or a system."""

_STORED_BYTES_MAX = 0xFFFF


def accepts_gzip(header: str) -> bool:
    """Return whether a request with this ``Accept-Encoding`` (RFC 9110 12.5.3) takes gzip; one that names only others,
    none or ``*`` is sent what it can read in any case."""
    for offer in header.split(","):
        name, *parameters = (part.strip().lower() for part in offer.split(";"))
        if name in ("gzip", "x-gzip"):
            return not any(one.replace(" ", "").rstrip("0.") == "q=" for one in parameters)
    return False


@lru_cache(maxsize=4)
def pack(piece: bytes, deflate_bytes: int) -> bytes:
    """Return a piece of the stream as blocks of deflate that end with a whole byte; compressed from ``deflate_bytes``
    on.

    The last ones are remembered: readers that go their own way are sent the same pieces soon after each other.
    """
    if len(piece) >= deflate_bytes:
        return compress(piece, WINDOW_BITS_MAX) + TAIL
    return b"".join(
        b"\x00" + len(block).to_bytes(2, "little") + (len(block) ^ _STORED_BYTES_MAX).to_bytes(2, "little") + block
        for block in (piece[at : at + _STORED_BYTES_MAX] for at in range(0, len(piece), _STORED_BYTES_MAX))
    )
