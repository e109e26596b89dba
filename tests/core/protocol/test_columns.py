"""Runs: what is checked of them, their parts, and their rows: the messages that would be published one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.protocol.columns import ColumnBatch, count, expand, last_values, part, refused_rows, without
from fastpath.core.protocol.errors import InvalidMessage
from fastpath.core.protocol.limits import FIELD_NAME_BYTES_MAX, FIELDS_MAX
from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import read_publication, read_run

VALUE = st.text(max_size=3) | st.binary(max_size=3)
META = st.fixed_dictionaries(
    {},
    optional={
        "retained": st.booleans(),
        "qos": st.sampled_from(["guaranteed", "standard"]),
        "closure": st.sampled_from(["", "c"]),
        "reply_to": st.sampled_from(["", "/r"]),
        "as_of": st.sampled_from(["now", 7, {"time": 3, "batch": 1, "job": "j", "version": 2}]),
    },
)


@st.composite
def a_run(draw: st.DrawFn) -> ColumnBatch:
    """A run that a frame may hold."""
    rows = draw(st.integers(1, 5))
    texts = draw(st.booleans())
    content = st.text("ab€", max_size=3) if texts else VALUE
    column = st.lists(content if texts else st.none() | VALUE, min_size=rows, max_size=rows)
    fields = draw(st.none() | st.dictionaries(st.sampled_from(["a", "b", "é"]), column, max_size=3))
    contents = draw(st.lists(content, min_size=rows, max_size=rows))
    return ColumnBatch("/a/b", contents, fields, draw(st.none() | META))


def rows_of(run: ColumnBatch) -> list[list[Any]]:
    """Its rows as they would be published one by one (protocol.md 6.2)."""
    rows = []
    for index, content in enumerate(run.contents):
        fields = {name: column[index] for name, column in (run.fields or {}).items() if column[index] is not None}
        rows.append([run.subject, content, fields or None, run.meta])
    return rows


def seen(message: Message) -> dict[str, Any]:
    """All that matters of it."""
    return {name: getattr(message, name) for name in Message.__struct_fields__ if name != "meta"}


@given(a_run(), st.data())
def test_the_rows_are_the_messages_that_would_be_published_one_by_one(run: ColumnBatch, data: st.DataObject) -> None:
    """Whole or from a row on, numbered or not, weighed."""
    start = data.draw(st.integers(0, len(run)))
    seq = data.draw(st.sampled_from([0, 17]))
    first = data.draw(st.sampled_from([0, 40]))
    wanted = []
    for index, row in enumerate(rows_of(run)):
        message = read_publication(msgspec.msgpack.decode(msgspec.msgpack.encode(row)))
        message.weigh()
        message.time = 9
        if seq:
            message.epoch, message.seq = 3, seq + index
        if first:
            message.publisher, message.publication = "p", first + index
        wanted.append(seen(message))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=ColumnBatch)
    got = expand(read_run(again), start, epoch=3, seq=seq, time=9, publisher="p", first=first)
    assert [seen(message) for message in got] == [one | {"fields": one["fields"] or None} for one in wanted[start:]]


@given(a_run(), st.data())
def test_parts(run: ColumnBatch, data: st.DataObject) -> None:
    """Slices, and all but some rows."""
    start, stop = data.draw(st.integers(0, 6)), data.draw(st.none() | st.integers(0, 6))
    assert rows_of(part(run, start, stop)) == rows_of(run)[start:stop]
    left_out = data.draw(st.sets(st.integers(0, len(run) - 1)))
    kept = [row for index, row in enumerate(rows_of(run)) if index not in left_out]
    assert rows_of(without(run, dict.fromkeys(left_out))) == kept
    assert count([run, run]) == 2 * len(run)


@given(a_run())
def test_the_newest_value_of_each_field(run: ColumnBatch) -> None:
    """Whichever row has set it."""
    wanted: dict[str, Any] = {}
    for _, _, fields, _ in rows_of(run):
        wanted |= fields or {}
    assert dict(last_values(run)) == wanted


MALFORMED = {
    "no list": (7, "a run is"),
    "a subject that is no text": ([7, ["x"]], "a run is"),
    "contents that are no list": (["/a", "x"], "a run is"),
    "fewer values than contents": (["/a", ["x", "y"], {"f": ["1"]}], "as many values"),
    "numbered": (["/a", ["x"], None, {"id": 3}], "no id"),
    "meta that is none": (["/a", ["x"], None, {"qos": "some"}], "qos is"),
    "as_of with another key": (["/a", ["x"], None, {"as_of": {"when": 3}}], "as_of is a map of time, batch, job"),
    "as_of with a negative version": (["/a", ["x"], None, {"as_of": {"version": -1}}], "version is a whole number"),
    "as_of with a large number": (["/a", ["x"], None, {"as_of": {"batch": 1 << 53}}], "batch is a whole number"),
    "as_of with a long job": (["/a", ["x"], None, {"as_of": {"job": "x" * 257}}], "job is a text"),
    "as_of with a number for a job": (["/a", ["x"], None, {"as_of": {"job": 7}}], "job is a text"),
    "as_of true": (["/a", ["x"], None, {"as_of": True}], "as_of is a text, a whole number or a map"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_run_is_refused_as_a_whole(case: str) -> None:
    """What is wrong is named."""
    row, words = MALFORMED[case]
    with pytest.raises(InvalidMessage, match=words):
        read_run(row)


def test_rows_that_no_message_may_be_like() -> None:
    """By their index; the others are good."""
    many = {f"f{index}": ["x", None] for index in range(FIELDS_MAX + 1)}
    assert refused_rows(ColumnBatch("/a", ["a", "b"], many), 1000) == {
        0: ("too_large", f"more than {FIELDS_MAX} fields")
    }
    texts = ColumnBatch("/a", ["é" * 5, "e" * 12, "e"], {"ab": [None, None, "12345678"]})
    assert refused_rows(texts, 11) == {1: ("too_large", "over 11 bytes")}
    assert refused_rows(texts, 9) == dict.fromkeys((0, 1, 2), ("too_large", "over 9 bytes"))
    odd = ColumnBatch("/a", ["x", 7, b"y", None, "z"], {"f": ["1", "2", b"3", "4", 5]})
    assert set(refused_rows(odd, 1000)) == {1, 3, 4}
    assert refused_rows(ColumnBatch("/a", [], {}), 1) == {}
    for name in ("", "x" * (FIELD_NAME_BYTES_MAX + 1)):
        assert [code for code, _ in refused_rows(ColumnBatch("/a", ["x"], {name: ["1"]}), 9999).values()] == ["invalid"]


def test_a_run_says_what_it_is() -> None:
    """Quality, retained, version."""
    plain = ColumnBatch("/a", ["x"])
    assert (plain.standard, plain.retained, plain.version) == (False, True, -1)
    other = ColumnBatch("/a", ["x"], None, {"qos": "standard", "retained": False, "as_of": {"version": 4}})
    assert (other.standard, other.retained, other.version) == (True, False, 4)
    assert ColumnBatch("/a", ["x"], None, {"as_of": "then"}).version == -1
