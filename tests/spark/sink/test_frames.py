"""Rows cut into frames: none is lost, those of a subject keep their order, and no frame is over its bounds."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.broker.staged_rows import STAGE_BYTES_MAX, STAGE_ROWS_MAX, read_runs
from fastpath.core.protocol.columns import expand
from fastpath.core.protocol.messages import Message
from spark.options import FRAME_ROWS_MAX
from spark.sink.frames import FRAME_BYTES_MAX, Frame, compressed, frames, row_at
from spark.sink.rows import Table

MESSAGE_BYTES_MAX = 1 << 20
SUBJECTS = ["/t/a", "/t/b", "/t/c"]
NAMES = ["bid", "ask", "at"]
VALUES = st.one_of(st.none(), st.text(max_size=3), st.binary(max_size=3))
META = st.sampled_from([None, {"retained": False}, {"as_of": {"batch": 3}}])


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Rows of few subjects, with fields as columns or as maps, some of them refused."""
    count = draw(st.integers(1, 40))
    of_rows = {"min_size": count, "max_size": count}
    subjects: list[str | None] = draw(st.lists(st.sampled_from([*SUBJECTS, None]), **of_rows))
    contents = draw(st.lists(st.one_of(st.text(max_size=3), st.binary(max_size=3)), **of_rows))
    columns = {name: draw(st.lists(VALUES, **of_rows)) for name in draw(st.sets(st.sampled_from(NAMES)))}
    maps = None
    if draw(st.booleans()):
        columns, maps = {}, draw(st.lists(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=3)), **of_rows))
    meta = draw(st.one_of(st.none(), st.lists(META, **of_rows)))
    refused = {place: "no subject" for place, subject in enumerate(subjects) if subject is None}
    return Table(subjects, contents, columns, maps, meta, refused)


def read(frame: Frame) -> list[Message]:
    """The rows of a frame as the sidecar makes messages of them."""
    _, runs = read_runs(frame.rows, frame.runs, MESSAGE_BYTES_MAX)
    return [message for run in runs for message in expand(run)]


def of_message(message: Message) -> tuple[Any, ...]:
    return message.subject, message.content, message.fields, message.retained, message.as_of


def of_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    subject, content, fields, meta = row
    return subject, content, fields, (meta or {}).get("retained", True), (meta or {}).get("as_of")


@settings(max_examples=200, deadline=None)
@given(tables(), st.integers(1, 9))
def test_every_row_is_in_one_frame_and_those_of_a_subject_are_in_order(table: Table, rows_max: int) -> None:
    cut = list(frames(table, rows_max))
    rows = dict(table.rows())
    places = [place for frame in cut for place in frame.places]
    assert sorted(places) == sorted(rows)
    assert [len(frame.places) for frame in cut] == [frame.rows for frame in cut]
    assert all(frame.rows == rows_max for frame in cut[:-1])
    messages = [message for frame in cut for message in read(frame)]
    assert [of_message(message) for message in messages] == [of_row(rows[place]) for place in places]
    for subject in SUBJECTS:
        mine = [place for place in places if table.subjects[place] == subject]
        assert mine == sorted(mine)


@settings(max_examples=50, deadline=None)
@given(tables())
def test_a_row_of_a_frame_is_found_again(table: Table) -> None:
    rows = dict(table.rows())
    for frame in frames(table, 7):
        for index, place in enumerate(frame.places):
            assert row_at(frame.runs, index) == rows[place][:3]


def plain(*contents: str, maps: Any = None) -> Table:
    return Table(["/t/a"] * len(contents), list(contents), {}, maps, None, {})


def test_rows_of_one_subject_are_one_run_and_share_their_meta() -> None:
    table = Table(["/t/a", "/t/b"] * 3, ["1"] * 6, {"n": [None] * 6}, None, None, {})
    (frame,) = frames(table, 10)
    assert msgspec.msgpack.decode(frame.runs) == [["/t/a", ["1"] * 3, None, None], ["/t/b", ["1"] * 3, None, None]]
    assert list(frame.places) == [0, 2, 4, 1, 3, 5]
    table.meta = [{"retained": False}] * 4 + [None] * 2
    (frame,) = frames(table, 10)
    assert [(run[1], run[3]) for run in msgspec.msgpack.decode(frame.runs)] == [
        (["1", "1"], {"retained": False}),
        (["1"], None),
        (["1", "1"], {"retained": False}),
        (["1"], None),
    ]


def test_no_frame_has_more_bytes_than_are_taken_unless_it_is_one_row() -> None:
    table = plain(*["x" * 1000] * 3000, "y" * (FRAME_BYTES_MAX + 1))
    cut = list(frames(table, FRAME_ROWS_MAX))
    assert all(len(frame.runs) <= FRAME_BYTES_MAX for frame in cut if frame.rows > 1)
    assert [frame.rows for frame in cut if len(frame.runs) > FRAME_BYTES_MAX] == [1]
    assert [message.content for frame in cut for message in read(frame)] == table.contents


def test_maps_with_ever_other_names_make_runs_that_are_taken() -> None:
    table = plain(*["1"] * 600, maps=[{f"{row}-{name}": "v" for name in range(4)} for row in range(600)])
    cut = list(frames(table, FRAME_ROWS_MAX))
    assert [message.fields for frame in cut for message in read(frame)] == table.maps
    empty = plain(*["1"] * 600, maps=[{}] * 600)
    assert sum(frame.rows for frame in frames(empty, FRAME_ROWS_MAX)) == 600


def test_compressed_runs_are_the_same_runs() -> None:
    (frame,) = frames(plain(*["12.5"] * 100), 100)
    packed = compressed(frame.runs)
    assert len(packed) < len(frame.runs) / 3
    assert zlib.decompress(msgspec.msgpack.decode(packed)) == frame.runs
    assert read_runs(100, packed, MESSAGE_BYTES_MAX)[0] == frame.runs


def test_the_bounds_are_those_of_the_sidecar() -> None:
    assert (FRAME_ROWS_MAX, FRAME_BYTES_MAX) == (STAGE_ROWS_MAX, STAGE_BYTES_MAX)
