"""Forms: what is joined for a client is split again into the same frames, and each is known for what it is."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.delivery.wire_encoding import ENCODINGS, Encoding, encoding, split_messages
from fastpath.core.protocol.codec import FORMS, JSON_FORMS, MQTT_FORMS, TRANSPORTS, Form
from fastpath.core.protocol.messages import AnyAnswer, Epoch, Message, Pong

MAKES = [*map(encoding, get_args(Form)), *(encoding(form, 15, 16) for form in FORMS)]
"""Every form, and the compressed ones."""

every_make = pytest.mark.parametrize("made", MAKES, ids=lambda made: f"{made.form}{made.window_bits or ''}")
sids = st.integers(0, (1 << 63) - 1)
contents = st.one_of(st.text(max_size=80), st.binary(max_size=80))


def frame_of(made: Encoding, sid: int, content: str | bytes, kind: str = "") -> bytes:
    """A message as it leaves."""
    message = Message("/a/b", content, fields={"name": content}, epoch=1, seq=2, time=1000)
    return made.frame_again(made.payload(message, sid, 0, made.form, kind))


@every_make
@given(
    st.lists(
        st.one_of(st.tuples(sids, contents, st.sampled_from(("", "snapshot"))), st.just(Pong(id=1, time=0))), max_size=8
    )
)
def test_a_chunk_is_split_into_its_frames(
    made: Encoding, values: list[tuple[int, str | bytes, str] | AnyAnswer]
) -> None:
    frames = [frame_of(made, *one) if isinstance(one, tuple) else made.answer(one) for one in values]
    ids = [one[0] if isinstance(one, tuple) else -1 for one in values]

    assert split_messages(b"".join(frames), made) == list(zip(frames, ids, strict=True))


@every_make
def test_what_is_no_message_has_no_subject(made: Encoding) -> None:
    others = [made.answer(Epoch(sid=17, epoch=3, seq=9)), made.goodbye(4001, "slow_consumer: a")]
    if made.ping and made.form in FORMS:
        others.append(made.ping)

    assert [made.sid_of(one) for one in others] == [-1] * len(others)
    assert list(made.split(b"".join(others))) == others


def test_each_form_has_a_class_and_what_is_said_of_it() -> None:
    assert set(ENCODINGS) == set(get_args(Form))
    assert set(TRANSPORTS) == set(get_args(Form)) - set(FORMS)
    assert {form for form in ENCODINGS if not encoding(form).dated} == MQTT_FORMS
    assert {form for form in ENCODINGS if not encoding(form).ping} == MQTT_FORMS | {"poll"}
    assert JSON_FORMS.isdisjoint(MQTT_FORMS)


def test_only_websockets_are_compressed() -> None:
    for form in get_args(Form):
        assert (encoding(form, 15, 16) is encoding(form)) == (form not in FORMS)
    long, short = "x" * 200, "x"
    for form in FORMS:
        made = encoding(form, 15, 100)
        assert len(frame_of(made, 1, long)) < 200
        assert frame_of(made, 1, short) == frame_of(encoding(form), 1, short)
