"""Forms: what is joined for a client is split again into the same frames, and each is known for what it is."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.delivery.wire import Wire, split_messages
from fastpath.core.protocol.codec import FORMS, JSON_FORMS, MQTT_FORMS, Form
from fastpath.core.protocol.messages import AnyAnswer, Epoch, Message, Pong
from fastpath.core.wires.registry import WIRES, wire_of

MAKES = [*map(wire_of, get_args(Form)), *(wire_of(form, 15, 16) for form in FORMS)]
"""Every form, and the compressed ones."""

every_make = pytest.mark.parametrize("made", MAKES, ids=lambda made: f"{made.form}{made.window_bits or ''}")
sids = st.integers(0, (1 << 63) - 1)
contents = st.one_of(st.text(max_size=80), st.binary(max_size=80))


def frame_of(made: Wire, sid: int, content: str | bytes, kind: str = "") -> bytes:
    """A message as it leaves."""
    message = Message("/a/b", content, fields={"name": content}, epoch=1, seq=2, time=1000)
    return made.message_again(made.payload(message, sid, 0, made.form, kind))


@every_make
@given(
    st.lists(
        st.one_of(st.tuples(sids, contents, st.sampled_from(("", "snapshot"))), st.just(Pong(id=1, time=0))), max_size=8
    )
)
def test_a_chunk_is_split_into_its_frames(made: Wire, values: list[tuple[int, str | bytes, str] | AnyAnswer]) -> None:
    frames = [frame_of(made, *one) if isinstance(one, tuple) else made.event(one) for one in values]
    ids = [one[0] if isinstance(one, tuple) else -1 for one in values]

    assert split_messages(b"".join(frames), made) == list(zip(frames, ids, strict=True))


@every_make
def test_what_is_no_message_has_no_subject(made: Wire) -> None:
    others = [made.event(Epoch(sid=17, epoch=3, seq=9)), made.close(4001, "slow_consumer: a")]
    if made.answers:
        others += [made.ping(), made.ping(b"operator")]

    assert list(made.split(b"".join(others))) == [(one, -1) for one in others]


def test_each_form_has_a_class_and_what_is_said_of_it() -> None:
    assert set(WIRES) == set(get_args(Form))
    transports = {"sse": "events", "stream": "stream", "poll": "poll", "mqtt": "mqtt", "mqtt5": "mqtt"}
    assert {form: made.transport for form, made in WIRES.items()} == dict.fromkeys(FORMS, "websocket") | transports
    assert {form for form in WIRES if wire_of(form).answers} == set(FORMS)
    assert {form for form in WIRES if not wire_of(form).numbered} == MQTT_FORMS
    assert {form for form in WIRES if wire_of(form).acknowledges} == MQTT_FORMS
    assert {form for form in WIRES if not wire_of(form).dated} == MQTT_FORMS
    assert {form for form in WIRES if not wire_of(form).pings} == MQTT_FORMS | {"poll"}
    assert {form for form in WIRES if not wire_of(form).ping()} == MQTT_FORMS | {"poll"}
    assert JSON_FORMS.isdisjoint(MQTT_FORMS)


def test_only_websockets_are_compressed() -> None:
    for form in get_args(Form):
        assert (wire_of(form, 15, 16) is wire_of(form)) == (form not in FORMS)
    long, short = "x" * 200, "x"
    for form in FORMS:
        made = wire_of(form, 15, 100)
        assert len(frame_of(made, 1, long)) < 200
        assert frame_of(made, 1, short) == frame_of(wire_of(form), 1, short)
