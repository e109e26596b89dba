"""Server-Sent Events as bytes: a payload as an event, comments, the goodbye, and a queue as single events."""

from __future__ import annotations

import json

PING = b":\n\n"
"""A comment, which readers ignore: it keeps proxies from ending a stream that is silent."""

_MESSAGE = b"data: ["
"""First bytes of the event of a message (protocol.md 5.1); answers are maps."""


def encode_event(payload: bytes, name: str = "", cursor: str = "") -> bytes:
    """Return JSON as an event; it has no line ends in it, for JSON escapes them.

    ``name`` is the type that a reader listens to, ``message`` without one; ``cursor`` is what the reader resumes from.
    """
    if not name and not cursor:
        return b"data: %b\n\n" % payload
    head = f"event: {name}\n" if name else ""
    if cursor:
        head += f"id: {cursor}\n"
    return b"%bdata: %b\n\n" % (head.encode(), payload)


def encode_goodbye(code: int, reason: str) -> bytes:
    """Return the last event of a stream that the server ends, with a code of protocol.md 7."""
    return encode_event(json.dumps({"code": int(code), "reason": reason}).encode(), "close")


def split_events(buffer: bytes) -> list[bytes]:
    """Return the single events of a queue; raise ValueError unless the queue begins and ends between two."""
    events = buffer.split(b"\n\n")
    if events.pop():
        raise ValueError("no whole events: cut the queue between them")
    return [event + b"\n\n" for event in events]


def sid_of_event(event: bytes) -> int:
    """Return the subject id of a message's event; -1 for anything else."""
    return int(event[len(_MESSAGE) : event.index(b",")]) if event.startswith(_MESSAGE) else -1
