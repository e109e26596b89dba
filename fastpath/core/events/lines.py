"""Frames as lines of JSON, for who asks for what has come: a payload as a line, the goodbye, and a queue as lines."""

from __future__ import annotations

import json

LINES_TYPE = "application/x-ndjson"
"""Media type of lines of JSON."""

LINES_TYPES = (LINES_TYPE, "text/plain")
"""Media types that a sender of lines may name: a page may send the second one elsewhere without asking first."""


def encode_line(payload: bytes) -> bytes:
    """Return JSON as a line; it has no line ends in it, for JSON escapes them."""
    return payload + b"\n"


def encode_last_line(code: int, reason: str) -> bytes:
    """Return the last line of a session that the server ends, with a code of protocol.md 7."""
    return encode_line(json.dumps({"close": int(code), "reason": reason}).encode())


def split_lines(buffer: bytes) -> list[bytes]:
    """Return the single lines of a queue; raise ValueError unless the queue ends with one."""
    lines = buffer.split(b"\n")
    if lines.pop():
        raise ValueError("no whole lines: cut the queue between them")
    return [line + b"\n" for line in lines]


def sid_of_line(line: bytes) -> int:
    """Return the subject id of a message's line (protocol.md 5.1); -1 for anything else, as answers are maps."""
    return int(line[1 : line.index(b",")]) if line.startswith(b"[") else -1
