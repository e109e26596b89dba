"""Which wires there are, by the form of what they carry: the one place that knows them all."""

from __future__ import annotations

from functools import cache

from ..delivery.wire import Terms, Wire, terms_of
from ..protocol.codec import FORMS, JSON, MQTT, MQTT5, MSGPACK, POLL, SSE, STREAM, Form
from .events import DescribedFrames, EventFrames, LineFrames
from .mqtt import RecordFrames
from .websocket import BinaryFrames, TextFrames

WIRES: dict[Form, type[Wire]] = {
    JSON: TextFrames,
    MSGPACK: BinaryFrames,
    SSE: DescribedFrames,
    STREAM: EventFrames,
    POLL: LineFrames,
    MQTT: RecordFrames,
    MQTT5: RecordFrames,
}
"""The class of each form."""


@cache
def wire_of(form: Form, window_bits: int = 0, deflate_bytes: int = 0) -> Wire:
    """Return the wire of this make, one object for all who ask; only WebSockets are compressed."""
    if form not in FORMS and window_bits:
        return wire_of(form)
    return WIRES[form](form, window_bits, deflate_bytes)


PLAIN: dict[Form, Terms] = {form: terms_of(wire_of(form)) for form in FORMS}
"""The terms of WebSockets that are neither compressed nor collected for."""
