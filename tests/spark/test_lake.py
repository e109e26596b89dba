"""The archive of messages: each once, in few files, and joined with what the sidecar still has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from fastpath.core.matching.pattern_set import PatternSet
from fastpath.core.protocol.errors import InvalidSubject
from spark import lake
from spark.lake import Archive
from spark.support import histories
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here

pytestmark = pytest.mark.spark
BEGIN = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
Row = tuple[Any, ...]


def message(subject: str, seq: int, minutes: float = 0, epoch: int = 7, content: str = "1") -> Row:
    time = BEGIN + timedelta(minutes=minutes)
    return subject, content.encode(), {"n": str(seq).encode()}, epoch, seq, time, None, None


def frame(session: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return session.createDataFrame(list(rows), lake.SCHEMA)


def kept(session: SparkSession, folder: Path, *subjects: str, **more: Any) -> list[tuple[str, int, int]]:
    rows = lake.read(session, folder, subjects or ("/**",), **more).collect()
    return sorted((row.subject, row.epoch, row.seq) for row in rows)


def keys(rows: Iterable[Row]) -> list[tuple[str, int, int]]:
    return sorted((row[0], row[3], row[4]) for row in rows)


def test_a_batch_is_there_once_whatever_is_tried_again(session: SparkSession, tmp_path: Path) -> None:
    """In another order, with other rows, after a crash between its files and its entry."""
    archive = Archive(tmp_path)
    rows = [message(f"/stocks/us/{symbol}", seq, 20 * seq) for symbol in ("IBM", "T", "AAPL") for seq in range(1, 4)]
    assert kept(session, tmp_path) == []
    stray = tmp_path / "data" / "date=2026-11-21" / "group=0" / "q-0-0.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"half a file")
    (tmp_path / ".writing-q-0").mkdir()
    assert archive.add(frame(session, rows[:6]), "q", 0)
    assert not archive.add(frame(session, rows[5::-1]), "q", 0)
    assert kept(session, tmp_path) == keys(rows[:6])
    assert archive.add(frame(session, rows[6:]), "q", 1)
    assert not archive.add(frame(session, rows), "q", 0)
    assert archive.add(frame(session, []), "q", 2)
    assert kept(session, tmp_path) == keys(rows)
    assert archive.positions(session) == {f"/stocks/us/{symbol}": [7, 3] for symbol in ("IBM", "T", "AAPL")}
    # Its place tells the date, in UTC, and the subject's group.
    files = archive.log.state().files.values()
    assert {file.date for file in files} == {"2026-11-21", "2026-11-22"}
    assert sum(file.rows for file in files) == 9
    # What was read is what was written, with all columns.
    first = lake.read(session, tmp_path, ["/stocks/us/IBM"]).orderBy("seq").head()
    assert first is not None
    assert (bytes(first.content), dict(first.fields)) == (b"1", {"n": bytearray(b"1")})
    assert first.time.replace(tzinfo=UTC) == BEGIN + timedelta(minutes=20)
    not_mine = [file for file in tmp_path.rglob("*.parquet") if str(file.relative_to(archive.log.data)) not in {
        file.path for file in files}]  # fmt: skip
    (tmp_path / ".writing-all-1").mkdir()
    assert archive.vacuum() == 0
    assert (tmp_path / ".writing-all-1").exists()
    assert archive.vacuum(seconds=-60) == len(not_mine)
    assert not [*tmp_path.glob(".writing-*")]


@pytest.mark.slow
def test_many_files_become_few_and_nothing_else(session: SparkSession, tmp_path: Path) -> None:
    """Real closes of a stock, a few days a batch, all on one date; who began to read before goes on."""
    archive = Archive(tmp_path)
    prices = histories.read().prices["AAPL"]
    rows = [message("/stocks/us/AAPL", seq, 40 + seq / 100, content=f"{prices[seq]:.2f}") for seq in range(1, 51)]
    for batch in range(5):
        archive.add(frame(session, rows[10 * batch : 10 * batch + 10]), "q", batch)
    before = lake.read(session, tmp_path)
    assert archive.compact(session, files_max=5) == 0
    assert archive.compact(session, files_max=4) == 5
    (file,) = archive.log.state().files.values()
    assert file.rows == 50
    assert archive.vacuum() == 0
    after = lake.read(session, tmp_path)
    assert before.orderBy("seq").collect() == after.orderBy("seq").collect()
    assert kept(session, tmp_path) == keys(rows)
    assert archive.vacuum(seconds=-60) == 5
    assert [bytes(row.content).decode() for row in after.orderBy("seq").collect()] == [row[1].decode() for row in rows]


def test_only_the_files_that_may_hold_it_are_opened(session: SparkSession, tmp_path: Path) -> None:
    """Those of other dates, groups and subjects are deleted, and nobody misses them."""
    archive = Archive(tmp_path)
    early = [message("/a/x", 1), message("/b/x", 1)]
    late = [message("/a/x", 2, 60), message("/b/x", 2, 60), message("/b/x", 3, 61), message("/__sys__/y", 4, 61)]
    archive.add(frame(session, [*early, *late]), "q", 0)
    noon = BEGIN + timedelta(minutes=61)
    files = list(archive.log.state().files.values())
    chosen = lake.chosen_files(files, ["/b/x"], noon)
    assert len(chosen) == 1
    assert {file.first for file in lake.chosen_files(files, ["/b/*"], None)} == {"/b/x"}
    for file in files:
        if file not in chosen:
            (archive.log.data / file.path).unlink()
    assert kept(session, tmp_path, "/b/x", start=noon) == [("/b/x", 7, 3)]


def test_subjects_are_chosen_as_in_a_subscription(session: SparkSession, tmp_path: Path) -> None:
    subjects = ["/a/x", "/a/x/y", "/a/z", "/b/x", "/__sys__/x", "/__mqtt__/x", "/user/x", "/a/Ä.b", "/a/a b\\Q$"]
    Archive(tmp_path).add(frame(session, [message(subject, 1) for subject in subjects]), "q", 0)
    for wanted in (
        ["/a/*"],
        ["/a/**"],
        ["/*/x"],
        ["/**"],
        ["/a/x", "/b/*"],
        ["/__sys__/*"],
        ["/user/*", "/__mqtt__/**"],
        ["/a/Ä.b"],
        ["/a/a b\\Q$"],
    ):
        cover = PatternSet(wanted)
        found = [subject for subject, _, _ in kept(session, tmp_path, *wanted)]
        assert found == sorted(subject for subject in subjects if cover.covers(subject)), wanted
    with pytest.raises(InvalidSubject):
        lake.read(session, tmp_path, ["/a/**/b"])


segments = st.one_of(st.sampled_from(["a", "b", "__sys__"]), st.text("ab.*\\^$é{}[]#\n", min_size=1, max_size=3))


@given(st.lists(segments, min_size=2, max_size=3), st.lists(segments, min_size=2, max_size=4))
@example(["a", "b"], ["a", "b\n"])
def test_files_are_never_passed_over(pattern: list[str], subject: list[str]) -> None:
    """A file of one message whose subject a pattern covers is among those that are opened."""
    segments = [one if one == "*" else one.replace("*", "") or "c" for one in pattern]
    name = "/" + "/".join(one.replace("*", "") or "c" for one in subject)
    for text in ("/" + "/".join(segments), "/" + "/".join(segments[:-1]) + "/**", "/**"):
        if PatternSet([text]).covers(name):
            group = crc32(name.encode()) % lake.GROUPS
            file = lake.File(f"date=2026-11-22/group={group}/x.parquet", 1, 1, name, name)
            assert lake.chosen_files([file], [text], None) == [file]


def cached(rows: Sequence[Row], meanwhile: Callable[[], None] = lambda: None) -> Callable[..., DataFrame]:
    """In place of the read of a sidecar's caches: these rows; what then happens, happens before anything else."""

    def read(session: SparkSession, *_: object) -> DataFrame:
        found = lake.partitioned(frame(session, rows)).localCheckpoint()
        meanwhile()
        return found

    return read


@pytest.mark.slow
def test_what_leaves_the_cache_while_it_is_read_is_found_in_the_archive(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job archives between the two reads: nothing is missing, nothing double, in any time zone."""
    archive = Archive(tmp_path)
    rows = [message("/a/x", seq, 20 * seq) for seq in range(1, 7)]
    archive.add(frame(session, rows[:2]), "q", 0)
    monkeypatch.setattr(lake, "_cached", cached(rows[4:], lambda: bool(archive.add(frame(session, rows[2:5]), "q", 1))))
    session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        assert kept(session, tmp_path, url="127.0.0.1:1") == keys(rows)
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.slow
def test_a_server_that_numbers_from_1_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one without a journal does in each epoch: a later epoch is later, however low its numbers are."""
    archive = Archive(tmp_path)
    old = [message("/a/x", seq, seq) for seq in range(1, 10)]
    new = [message("/a/x", seq, 20 + seq, epoch=8) for seq in range(1, 6)]
    archive.add(frame(session, old), "q", 0)
    monkeypatch.setattr(lake, "_cached", cached(new))
    assert kept(session, tmp_path, url="127.0.0.1:1") == keys([*old, *new])
    monkeypatch.setattr(lake, "_cached", cached(new[2:]))
    with pytest.raises(lake.Missing, match="2 messages of /a/x from number 1 on"):
        lake.read(session, tmp_path, url="127.0.0.1:1")
    archive.add(frame(session, new[:2]), "q", 1)
    assert archive.positions(session) == {"/a/x": [8, 2]}
    assert kept(session, tmp_path, url="127.0.0.1:1") == keys([*old, *new])
    monkeypatch.setattr(lake, "_cached", cached(new[4:]))
    with pytest.raises(lake.Missing, match="2 messages of /a/x from number 3 on"):
        lake.read(session, tmp_path, url="127.0.0.1:1")


def test_a_wrong_folder_is_said(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        lake.read(session, tmp_path / "lakee")


def test_a_lake_is_a_folder_that_can_be_moved(session: SparkSession, tmp_path: Path) -> None:
    """Its log has no absolute paths."""
    Archive(tmp_path / "one").add(frame(session, [message("/a/x", 1)]), "q", 0)
    os.rename(tmp_path / "one", tmp_path / "two")
    assert kept(session, tmp_path / "two") == [("/a/x", 7, 1)]
