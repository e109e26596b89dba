"""The events of a stream, in whatever pieces they come."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.subscriber.transports.stream import EventReader

STREAM = (
    b'event: session\ndata: {"session":"s"}\n\n:\n\ndata: [1,2]\n\n: heartbeat\n\n'
    b'data: {"op":"pong"}\n\nevent: close\ndata: {"code":4000}\n\n'
)
EVENTS = [(b"session", b'{"session":"s"}'), (b"", b"[1,2]"), (b"", b'{"op":"pong"}'), (b"close", b'{"code":4000}')]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_events_in_pieces(cuts: list[int]) -> None:
    reader = EventReader()
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[begin:end] for begin, end in itertools.pairwise(places)]
    assert [event for piece in pieces for event in reader.take(piece)] == EVENTS


def test_byte_by_byte() -> None:
    reader = EventReader()
    assert [event for byte in STREAM for event in reader.take(bytes([byte]))] == EVENTS
