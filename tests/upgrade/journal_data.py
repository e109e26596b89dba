"""A copy of a journal that is not taken for one: as if the machine had only stopped the old sidecar and begun the new.

A file's first record names the file (inode) and the start of the machine in which it was written, and only there may
numbers go on within their epoch.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec

HEAD = struct.Struct(">8sBIII")  # mark, kind, length, length inverted, CRC-32
AT = 16
"""Where the first record begins: behind the file's magic and its mark."""


def in_place(folder: Path) -> None:
    """The journal's files in a folder were written here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    for path in folder.glob("*.log"):
        data = path.read_bytes()
        mark, kind, length, _, _ = HEAD.unpack_from(data, AT)
        end = AT + HEAD.size + length
        header = msgspec.msgpack.decode(data[AT + HEAD.size : end])
        body = msgspec.msgpack.encode(header | {"inode": path.stat().st_ino, "boot": boot})
        crc = zlib.crc32(body, zlib.crc32(mark) ^ kind)
        head = HEAD.pack(mark, kind, len(body), len(body) ^ 0xFFFFFFFF, crc)
        with path.open("r+b") as file:
            file.write(data[:AT] + head + body + data[end:])
            file.truncate()
