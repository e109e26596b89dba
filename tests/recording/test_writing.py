"""Files of a recording: plain and packed, cut anywhere, in parts, on a disk that is full."""

from __future__ import annotations

import gzip
import resource
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastpath.recording import reading
from fastpath.recording.lines import Header, Recorded, RecordingError, encode
from fastpath.recording.reading import Reader
from fastpath.recording.writing import File, RecordingParts, part_path
from tests.support.recording.samples import BEGAN_US, header, message, messages, read, write


def _header(part: int, at_us: int) -> Header:
    return header(part=part, at_us=at_us)


def _record(path: Path, count: int, **bounds: float) -> RecordingParts:
    parts = RecordingParts(str(path), _header, BEGAN_US, **bounds)  # type: ignore[arg-type]
    for number in range(count):
        parts.message(message(number, content=f"{number:04d}" * 10))
        parts.flush()
    parts.close(BEGAN_US + count * 1000, "signal")
    return parts


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    """Header, messages, end; only who recorded it may read it."""
    parts = _record(tmp_path / name, 100)

    reader = Reader(str(tmp_path / name))
    lines = list(reader)
    assert [line.content for line in messages(tmp_path / name)] == [f"{number:04d}" * 10 for number in range(100)]
    assert (lines[-1].messages, lines[-1].why) == (100, "signal")  # type: ignore[union-attr]
    assert reader.header == header(part=1)
    assert not reader.cut
    assert parts.messages == 100
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_file_that_was_cut_is_read_to_its_last_whole_line(tmp_path: Path, name: str) -> None:
    """Cut at every byte behind the header: no line is lost that was there, and the end says that it is cut."""
    _record(tmp_path / name, 2)
    whole = (tmp_path / name).read_bytes()
    lines = (gzip.decompress(whole) if name.endswith(".gz") else whole).splitlines(keepends=True)
    cut = tmp_path / ("cut-" + name)
    first = len(encode(header())) if name == "a.jsonl" else 120
    seen = set()
    for size in range(first, len(whole)):
        cut.write_bytes(whole[:size])
        reader = Reader(str(cut))
        found = list(reader)
        seen.add(len(found))
        assert all(isinstance(line, Recorded) for line in found[:2])
        if name == "a.jsonl":
            ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
            assert len(found) == sum(end <= size for end in ends) - 1
            assert reader.cut is (size not in ends)
        else:
            assert reader.cut
    assert seen >= {0, 1, 2}


def test_what_was_flushed_can_be_unpacked_although_the_file_has_no_end(tmp_path: Path) -> None:
    """As after a recorder that was killed."""
    path = tmp_path / "a.jsonl.gz"
    parts = RecordingParts(str(path), _header, BEGAN_US)
    for number in range(3):
        parts.message(message(number))
    parts.flush()
    before = len(messages(path))
    parts.message(message(4))
    parts.abandon()

    assert before == 3
    reader = Reader(str(path))
    assert len(list(reader)) == 3
    assert reader.cut


def test_packed_recordings_can_be_joined(tmp_path: Path) -> None:
    """gzip's streams after one another are one; the header in the middle is none of the messages."""
    _record(tmp_path / "a.gz", 3)
    (tmp_path / "b.gz").write_bytes((tmp_path / "a.gz").read_bytes() * 2)

    assert len(messages(tmp_path / "b.gz")) == 6


def test_little_that_unpacks_to_much_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unpacked a piece at a time, and what has no end of line for long is refused."""
    monkeypatch.setattr(reading, "LINE_BYTES_MAX", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(32 << 20), 1))
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match="bytes without an end: this is no recording"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\n", "line 1: no line of a recording"),
        (b"#!/bin/sh\n", "line 1: no line of a recording"),
        (encode(message()), "line 1: the first line is no header"),
        (encode(header()) + b"{}\n", "line 2: no line of a recording"),
        (b"\x1f\x8bnonsense", "line 1: what is compressed is damaged"),
    ],
)
def test_what_is_no_recording_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    """With the file and the line."""
    path = tmp_path / "f"
    path.write_bytes(data)

    with pytest.raises(RecordingError, match=says) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    """In the words of the operating system."""
    with pytest.raises(RecordingError, match="No such file"):
        read(tmp_path / "none")


def test_a_recording_that_is_there_is_not_lost(tmp_path: Path) -> None:
    """Unless it is asked for."""
    path = write(tmp_path / "a.jsonl", [message()])

    with pytest.raises(RecordingError, match="is there already: choose another name, or say --replace"):
        File(str(path))
    File(str(path), replace=True).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz"])
def test_parts_end_at_a_size(tmp_path: Path, name: str) -> None:
    """Each is a recording of its own with its number; together they have every message once, in order."""
    _record(tmp_path / name, 100, bytes_max=1500)

    found = sorted(tmp_path.iterdir())
    assert len(found) >= 2
    assert [path.name for path in found] == [Path(part_path(name, n + 1)).name for n in range(len(found))]
    assert all(path.stat().st_size < 1500 + 300 for path in found)
    assert [line.content for path in found for line in messages(path)] == [f"{n:04d}" * 10 for n in range(100)]
    for number, path in enumerate(found, 1):
        reader = Reader(str(path))
        last = list(reader)[-1]
        assert reader.header is not None and reader.header.part == number
        assert last.why == ("bytes" if path is not found[-1] else "signal")  # type: ignore[union-attr]


def test_parts_end_at_a_time_but_not_without_a_message(tmp_path: Path) -> None:
    """Silence makes no files."""
    parts = RecordingParts(str(tmp_path / "day.jsonl"), _header, BEGAN_US, seconds_max=1)
    parts.turn(BEGAN_US + 5_000_000)
    for ms in (5500, 6400, 6600, 7700):
        parts.message(message(ms))
    parts.turn(BEGAN_US + 60_000_000)
    parts.turn(BEGAN_US + 120_000_000)
    parts.close(BEGAN_US + 130_000_000, "signal")

    found = [[(line.at_us - BEGAN_US) / 1000 for line in messages(path)] for path in sorted(tmp_path.iterdir())]
    assert found == [[5500], [6400, 6600], [7700], []]


def test_the_oldest_parts_go_and_numbers_go_on(tmp_path: Path) -> None:
    """A recorder that is started anew writes over nothing."""
    other = tmp_path / "day-x.jsonl"
    other.write_text("not ours")
    _record(tmp_path / "day.jsonl", 50, bytes_max=500, files_max=2)
    before = sorted(path.name for path in tmp_path.iterdir())
    _record(tmp_path / "day.jsonl", 1, bytes_max=500, files_max=2)
    after = sorted(path.name for path in tmp_path.iterdir())

    assert len(before) == 3 and other.name in before
    assert after[0] == before[1]
    assert int(after[1][4:8]) == int(before[1][4:8]) + 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_full_disk_is_said_and_what_came_before_is_kept(tmp_path: Path, name: str) -> None:
    """The file system takes part of a write, and then no more."""
    path = tmp_path / name
    parts = RecordingParts(str(path), _header, BEGAN_US)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(1000):
            parts.message(message(number, content=f"{number * 7919:08d}"))
            parts.flush()
            written = number + 1

    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(RecordingError, match=r"File too large; what was written before can be read") as raised:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        parts.abandon()

    assert str(path) in str(raised.value)
    found = messages(path)
    assert written > 5
    assert [line.content for line in found[:written]] == [f"{number * 7919:08d}" for number in range(written)]


def test_a_device_is_written_to_as_it_is() -> None:
    """/dev/full is the disk that is always full."""
    file = File("/dev/full")
    file.write(b"x")
    with pytest.raises(RecordingError, match="No space left on device"):
        file.flush()
    file.abandon()


def test_the_standard_output_has_no_parts() -> None:
    """It is said instead of ignored."""
    with pytest.raises(RecordingError, match="cannot be divided"):
        RecordingParts("-", _header, BEGAN_US, bytes_max=1)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("day.jsonl.gz", "day-0007.jsonl.gz"),
        ("/x.y/day", "/x.y/day-0007"),
        ("day.", "day-0007."),
    ],
)
def test_where_the_number_of_a_part_stands(path: str, part: str) -> None:
    """Before the endings, so that the program that reads it knows what it is."""
    assert part_path(path, 7) == part


def test_a_pipe_that_has_nothing_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one who reads may do other things meanwhile, or end it."""
    import os
    import sys

    reading, writing = os.pipe()
    with open(reading) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        os.write(writing, encode(header()) + encode(message()))
        asked: list[int] = []

        def idle() -> bool:
            asked.append(len(asked))
            if len(asked) == 2:
                os.write(writing, encode(message(1)))
            return len(asked) < 4

        assert len(list(Reader("-", idle))) == 2
        assert len(asked) == 4
    os.close(writing)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@given(st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_read_up_to_there_or_refused_in_words(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Bytes changed, left out, put in: nothing but a RecordingError comes of it."""
    path = tmp_path / name
    path.unlink(missing_ok=True)
    _record(path, 3)
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path.write_bytes(whole)
    try:
        for line in Reader(str(path)):
            assert line is not None
    except RecordingError as error:
        assert str(path) in str(error)
