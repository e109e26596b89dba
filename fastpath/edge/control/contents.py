"""What messages hold, as operators are shown it: bounded, and bytes as text."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from ...core.protocol.messages import Fields, Message, Value
from ...core.protocol.packets import pack

SHOWN_BYTES_MAX = 16 << 10
"""Bytes, a text's in UTF-8, that are shown of a content, and of all fields together."""


class AnswerRoom:
    """The bytes of an answer that are left for something."""

    def __init__(self, size: int) -> None:
        self.left = size

    def takes(self, part: Any) -> bool:
        """Return whether there is room for this part as it is sent, which the part takes then."""
        size = len(pack([part]))
        if size > self.left:
            return False
        self.left -= size
        return True


def shown(message: Message, fields: Fields | None = None, most: int = SHOWN_BYTES_MAX) -> dict[str, Any]:
    """Return the message's place, time, content and ``fields`` (its own, or a snapshot's), so many bytes of both.

    ``cut``: its bytes, when not all of them are shown; ``removed``: True where it is a removal.
    """
    given: Fields = (message.fields if fields is None else fields) or {}
    room = most
    kept: dict[str, Any] = {}
    cut = False
    for name, value in given.items():
        if room <= 0:
            cut = True
            break
        kept[name], size, whole = _part(value, room)
        cut = cut or not whole
        room -= len(name.encode(errors="replace")) + size
    content, _, whole = _part(message.content, most)
    answer = {
        "subject": message.subject,
        "epoch": message.epoch,
        "seq": message.seq,
        "time": message.time,
        "content": content,
        "fields": kept,
    }
    if cut or not whole:
        answer["cut"] = message.size
    if message.removed:
        answer["removed"] = True
    return answer


def shown_within(messages: list[Message], size: int) -> Iterator[dict[str, Any]]:
    """Return all messages in so many bytes: each has its share of what those before it have left."""
    room = AnswerRoom(size)
    for left, message in zip(range(len(messages), 0, -1), messages, strict=True):
        # Its content and its fields; bytes take four thirds as text.
        answer = shown(message, most=min(SHOWN_BYTES_MAX, max(room.left, 0) * 3 // (left * 8)))
        room.left -= len(pack([answer]))
        yield answer


def _part(value: Value, room: int) -> tuple[Any, int, bool]:
    """Return as much of a value as there is room for, bytes as ``{"b": BASE64}`` (protocol.md 1.4); how many bytes of
    the value that are, and whether they are all."""
    part = value[:room]
    if isinstance(part, bytes):
        return {"b": base64.b64encode(part).decode()}, len(part), len(part) == len(value)
    size = len(part)
    if not part.isascii():
        data = part.encode(errors="replace")[:room]
        size = len(data)
        part = data.decode(errors="ignore")  # a character that is cut is left out
    return part, size, len(part) == len(value)
