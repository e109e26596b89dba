"""The wires of plain HTTP: events of a stream, and lines for who polls; both JSON, and neither compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..delivery.wire import Wire
from ..events import framing, lines
from ..protocol.codec import encode

if TYPE_CHECKING:
    from ..protocol.messages import AnyAnswer


class EventFrames(Wire):
    """Events of a session over HTTP, whose client answers a ping by taking it (docs/reference/sessions.md)."""

    __slots__ = ()

    transport = "stream"

    def message(self, payload: bytes) -> bytes:
        return framing.encode_event(payload)

    def event(self, value: AnyAnswer) -> bytes:
        return framing.encode_event(encode(value, self.form))

    def ping(self, payload: bytes = b"") -> bytes:
        del payload
        return framing.PING

    def close(self, code: int, reason: str) -> bytes:
        return framing.encode_goodbye(code, reason)

    def split(self, chunk: bytes) -> list[tuple[bytes, int]]:
        return [(event, framing.sid_of_event(event)) for event in framing.split_events(chunk)]


class DescribedFrames(EventFrames):
    """Events for bare readers, which are described as they leave (core/events/described.py)."""

    __slots__ = ()

    transport = "events"


class LineFrames(Wire):
    """Lines for who polls, and shows by asking that it lives."""

    __slots__ = ()

    transport = "poll"
    pings = False

    def message(self, payload: bytes) -> bytes:
        return lines.encode_line(payload)

    def event(self, value: AnyAnswer) -> bytes:
        return lines.encode_line(encode(value, self.form))

    def close(self, code: int, reason: str) -> bytes:
        return lines.encode_last_line(code, reason)

    def split(self, chunk: bytes) -> list[tuple[bytes, int]]:
        return [(line, lines.sid_of_line(line)) for line in lines.split_lines(chunk)]
