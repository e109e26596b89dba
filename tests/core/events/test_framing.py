"""Events as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.events.framing import PING, encode_event, encode_goodbye, sid_of_event, split_events

EVENTS = [
    (encode_event(b'[17,41,5200,"193.10"]'), 17),
    (encode_event(b'[4294967296,0,-1,"a\\nb",{"c":"]"}]'), 4294967296),
    (encode_event(b'{"op":"pong","id":1,"time":2}'), -1),
    (encode_event(b'[17,1,2,"x"]', cursor="abc"), -1),
    (encode_event(b"{}", "close"), -1),
    (encode_goodbye(4001, 'slow_consumer: "x"\n'), -1),
    (PING, -1),
]


@pytest.mark.parametrize(("event", "sid"), EVENTS)
def test_the_subject_id_is_that_of_a_row(event: bytes, sid: int) -> None:
    assert sid_of_event(event) == sid


@given(st.lists(st.sampled_from([event for event, _ in EVENTS])))
def test_a_queue_is_split_into_what_it_was_made_of(events: list[bytes]) -> None:
    assert split_events(b"".join(events)) == events


@pytest.mark.parametrize("event", [event for event, _ in EVENTS])
def test_a_part_of_an_event_is_none(event: bytes) -> None:
    """Cut anywhere but at its ends."""
    for at in range(1, len(event)):
        with pytest.raises(ValueError, match="no whole events"):
            split_events(event[:at])


def test_names_and_cursors_come_before_the_data() -> None:
    assert encode_event(b"1") == b"data: 1\n\n"
    assert encode_event(b"1", "note", "abc") == b"event: note\nid: abc\ndata: 1\n\n"
    assert encode_goodbye(4000, "drain: go") == b'event: close\ndata: {"code": 4000, "reason": "drain: go"}\n\n'
