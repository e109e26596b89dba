"""Makes one moving picture of several PNGs: an APNG, which browsers show and other programs take for its first one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

SIGNATURE = b"\x89PNG\r\n\x1a\n"
Frame = tuple[bytes, int]
"""A PNG, and how many milliseconds it is shown."""


class NoAnimation(ValueError):
    """The reason why some pictures cannot be one."""


def animated(frames: Sequence[Frame]) -> bytes:
    """Return the APNG, which begins again at its end; NoAnimation where the pictures are not of one size and kind."""
    if len(frames) < 2:
        raise NoAnimation("one picture does not move")
    head = dict(chunks(frames[0][0]))[b"IHDR"]
    width, height = struct.unpack(">II", head[:8])
    parts = [SIGNATURE, _chunk(b"IHDR", head), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for at, (picture, milliseconds) in enumerate(frames):
        if dict(chunks(picture))[b"IHDR"] != head:
            raise NoAnimation(f"picture {at} is of another size or kind than the first")
        shown = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, milliseconds, 1000, 0, 0)
        parts.append(_chunk(b"fcTL", shown))
        number += 1
        for name, body in chunks(picture):
            if name == b"IDAT" and at == 0:
                parts.append(_chunk(b"IDAT", body))
            elif name == b"IDAT":
                parts.append(_chunk(b"fdAT", struct.pack(">I", number) + body))
                number += 1
    return b"".join([*parts, _chunk(b"IEND", b"")])


def chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and body of each part of a PNG; NoAnimation where it is none."""
    if not picture.startswith(SIGNATURE):
        raise NoAnimation("it is no PNG")
    at = len(SIGNATURE)
    while at < len(picture):
        (size,) = struct.unpack_from(">I", picture, at)
        name, body = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        if zlib.crc32(name + body) != struct.unpack_from(">I", picture, at + 8 + size)[0]:
            raise NoAnimation(f"its part {name.decode('latin-1')} is damaged")
        yield name, body
        at += 12 + size


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
