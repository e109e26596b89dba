"""Writes the test vectors from plain values, with a packer of its own: ``python -m tests.vectors.build``.

It shares no code with the server or a client, so that a fault of theirs cannot hide in what they are compared with.
"""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

from tests.vectors import cases

FOLDER = Path(__file__).parent


def packed(value: Any) -> bytes:
    """MessagePack, every integer and length in its shortest form."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return _integer(value)
        case str():
            data = value.encode()
            return _head(len(data), 0xA0, 31, (0xD9, 0xDA, 0xDB)) + data
        case bytes():
            return _head(len(value), 0, -1, (0xC4, 0xC5, 0xC6)) + value
        case list():
            return _head(len(value), 0x90, 15, (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
        case dict():
            items = b"".join(packed(name) + packed(item) for name, item in value.items())
            return _head(len(value), 0x80, 15, (None, 0xDE, 0xDF)) + items
    raise TypeError(f"{value!r} is no value of the protocol")


def _integer(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b" if value < 0 else "B", value)
    unsigned = ((8, 0xCC, "B"), (16, 0xCD, "H"), (32, 0xCE, "I"), (64, 0xCF, "Q"))
    signed = ((7, 0xD0, "b"), (15, 0xD1, "h"), (31, 0xD2, "i"), (63, 0xD3, "q"))
    for bits, code, form in unsigned if value > 0 else signed:
        if -(1 << bits) <= value < 1 << bits:
            return bytes([code]) + struct.pack(">" + form, value)
    raise ValueError(value)


def _head(length: int, short: int, short_max: int, codes: tuple[int | None, int, int]) -> bytes:
    if length <= short_max:
        return bytes([short | length])
    for code, form, bound in zip(codes, "BHI", (1 << 8, 1 << 16, 1 << 32), strict=True):
        if code is not None and length < bound:
            return bytes([code]) + struct.pack(">" + form, length)
    raise ValueError(length)


def in_json(value: Any) -> Any:
    """The value as JSON has it: binary as ``{"b": base64}`` (protocol.md 1.4)."""
    match value:
        case bytes():
            return {"b": base64.b64encode(value).decode()}
        case list():
            return [in_json(item) for item in value]
        case dict():
            return {name: in_json(item) for name, item in value.items()}
    return value


def vector(direction: str, name: str, section: str, value: Any) -> dict[str, Any]:
    """One vector as it stands in the files."""
    text = json.dumps(in_json(value), separators=(",", ":"), ensure_ascii=False)
    return {
        "name": name,
        "section": section,
        "direction": direction,
        "json": None if direction.startswith("publisher") else text,
        "msgpack": packed(value).hex(),
    }


def files() -> dict[str, str]:
    """The text of each file by its name."""
    return {
        f"{name}.json": json.dumps([vector(direction, *case) for case in listed], indent=1, ensure_ascii=False) + "\n"
        for name, direction, listed in cases.FILES
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text)
