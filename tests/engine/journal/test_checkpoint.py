"""A base stands for the log before it: the state after a replay is the state before, wherever a base was written."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import Message
from fastpath.engine.journal import checkpoint as journal_base
from fastpath.engine.journal import engine as journal
from fastpath.engine.journal.checkpoint import BaseWriter
from fastpath.engine.journal.format import (
    HEAD_BYTES,
    HEADER,
    MARK_BYTES,
    PUBLISHERS,
    START_BYTES,
    SUBJECTS,
    Packer,
)
from tests.support.engine.journals import START, Node
from tests.support.waiting import auntil

step = st.one_of(
    st.tuples(
        st.just("publish"),
        st.lists(
            st.tuples(
                st.sampled_from(["/s/a", "/s/b", "/s/c", "/s/d"]),
                st.none() | st.dictionaries(st.sampled_from("xyz"), st.text("0123456789", max_size=2), max_size=2),
                st.sampled_from(["retained", "retained", "not retained", "removed"]),
                st.booleans(),
            ),
            min_size=1,
            max_size=4,
        ),
    ),
    st.tuples(st.sampled_from(["begin", "slice", "slice", "finish", "segment", "restart", "shorten"]), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=40))
def test_a_replay_gives_the_state_of_before(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_base, "ROWS_BYTES", 0)
        patch.setattr(journal_base, "PUBLISHERS_AT_ONCE", 1)
        history = _History(Path(name))
        for what, rows in [*steps, ("restart", None)]:
            getattr(history, what)(rows)
        history.node.crash()


class _History:
    """What happens to a journal; each method is a step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.node = Node(folder, segment_bytes=400)
        self.writer: BaseWriter | None = None
        self.publication = 0
        self.removed = False
        self.made = 0

    def publish(self, rows: list[tuple[str, dict[str, str] | None, str, bool]]) -> None:
        messages = []
        for subject, fields, how, numbered in rows:
            self.made += 1
            message = Message(subject, str(self.made), dict(fields) if fields else None, retained=how != "not retained")
            if how == "removed":
                message.content, message.replace, message.removed = "", True, True
            if numbered:
                self.publication += 1
                message.publisher, message.publication = "p", self.publication
            messages.append(message)
        self.node.publish(*messages)

    def begin(self, _: None) -> None:
        if self.writer is None:
            self.writer = self.node.begin_base()

    def slice(self, _: None) -> None:
        if self.writer is not None and not self.writer.slice(0):
            self.finish(None)

    def finish(self, _: None) -> None:
        if self.writer is not None:
            while self.writer.slice(0):
                pass
            self.writer.finish()
            self.writer = None

    def segment(self, _: None) -> None:
        self.node.engine._next_file()

    def shorten(self, _: None) -> None:
        """As Upkeep does when the messages have left the cache."""
        self.begin(None)
        self.finish(None)
        folder = self.node.engine._folder
        if bases := folder.bases():
            for number in folder.segments():
                if number < bases[-1]:
                    folder.segment(number).unlink()
                    self.removed = True

    def restart(self, _: None) -> None:
        before, epoch = self.node.state(), self.node.engine.epoch
        self.node.crash()
        self.writer = None
        self.node = Node(self.folder, segment_bytes=400)
        after = self.node.state()
        assert self.node.engine.epoch == epoch
        assert list(self.folder.glob("*.partial")) == []
        if self.removed:
            for subject, (position, next_, ring, snapshot) in before.items():
                now = after[subject]
                assert (now[0], now[1], now[3]) == (position, next_, snapshot)
                assert now[2] == ring[len(ring) - len(now[2]) :]
        else:
            assert after == before
        if self.publication:
            deduplicator = self.node.engine.deduplicator
            assert deduplicator.find("p", self.publication) is not None
            assert deduplicator.find("p", self.publication + 1) is None


async def test_log_that_is_not_needed_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "REMEMBERED_MS", 0)
    node = Node(tmp_path, segment_bytes=20_000, limits=Limits(cache_ms=1))
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    for number in range(3000):
        node.send(f"/s/{number % 50}", "x" * 20, {"n": str(number)})
    assert node.engine.figures()["journal_segments"] > 10
    upkeep = node.engine._upkeep
    upkeep.on_second(0)
    await auntil(lambda: not upkeep.writing)
    upkeep.on_second(0)
    await auntil(lambda: len(list(tmp_path.glob("*.log"))) == 1)
    figures = node.engine.figures()
    assert figures["journal_segments"] == 1
    assert figures["journal_bytes"] == sum(
        path.stat().st_size for path in tmp_path.iterdir() if path.suffix in (".log", ".base")
    )
    assert len(list(tmp_path.glob("*.base"))) == 1
    before, epoch = node.state(), node.engine.epoch
    node.stop()
    again = Node(tmp_path, START + 10)
    assert again.engine.epoch == epoch
    assert {subject: (one[0], one[3]) for subject, one in again.state().items()} == {
        subject: (one[0], one[3]) for subject, one in before.items()
    }
    again.crash()


async def test_log_stays_while_it_is_needed_for_the_cache(tmp_path: Path) -> None:
    node = Node(tmp_path, segment_bytes=5000)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    for number in range(300):
        node.send("/s/a", str(number))
    upkeep = node.engine._upkeep
    upkeep.on_second(0)
    await auntil(lambda: list(tmp_path.glob("*.base")))
    upkeep.on_second(0)
    before = node.state()
    node.stop()
    again = Node(tmp_path)
    assert again.state() == before
    assert len(again.topic("/s/a").ring or ()) == 300
    again.crash()


def test_a_publisher_is_known_from_a_base(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1", publisher="p", publication=7)
    old = node.file
    writer = node.begin_base()
    while writer.slice(1):
        pass
    writer.finish()
    node.crash()
    old.unlink()
    node = Node(tmp_path)
    assert node.send("/s/a", "1", publisher="p", publication=7)[0][0] == "stale"  # type: ignore[index]
    assert node.send("/s/a", "2", publisher="p", publication=8) == [2]
    node.crash()


def test_a_base_of_many_subjects_is_written_in_short_slices(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for start in range(0, 20_000, 100):
        node.publish(*[Message(f"/s/{number}", "x" * 100) for number in range(start, start + 100)])
    writer = node.begin_base()
    sizes = [writer.size]
    while writer.slice(0):
        sizes.append(writer.size)
    writer.finish()
    assert len(sizes) > 50
    assert max(after - before for before, after in pairwise(sizes)) < 2 * journal_base.ROWS_BYTES
    before = node.state()
    node.crash()
    again = Node(tmp_path)
    assert again.state() == before
    again.crash()


@pytest.mark.parametrize("kind", [SUBJECTS, PUBLISHERS, HEADER])
def test_a_record_of_a_base_that_cannot_be_read_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    """Its sums are right: a fault of the writer. It is named, and what stands behind it counts."""
    node = Node(tmp_path)
    node.send("/s/1", "first")
    writer = node.begin_base()
    while writer.slice(1):
        pass
    writer.finish()
    node.send("/s/1", "second")
    node.crash()
    epoch = node.engine.epoch
    base = next(tmp_path.glob("*.base"))
    data = base.read_bytes()
    behind = START_BYTES + HEAD_BYTES + int.from_bytes(data[START_BYTES + 9 : START_BYTES + 13])  # the header
    mark = data[START_BYTES - MARK_BYTES : START_BYTES]
    base.write_bytes(data[:behind] + bytes(Packer(mark).pack(kind, 5)) + data[behind:])
    again = Node(tmp_path, START + 1)
    assert f"{base.name}: the record at byte {behind} cannot be read" in caplog.text
    assert again.since("/s/1", epoch, 1) == ["second"]
    assert again.engine.epoch > epoch
    again.crash()


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: data[:-1]])
def test_a_base_that_is_damaged_is_named_and_what_it_still_tells_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Any
) -> None:
    node = Node(tmp_path)
    for number in range(2000):
        node.send(f"/s/{number}", "x" * 100)
    writer = node.begin_base()
    while writer.slice(1):
        pass
    writer.finish()
    node.send("/s/0", "last")
    node.crash()
    epoch = node.engine.epoch
    base = next(tmp_path.glob("*.base"))
    base.write_bytes(spoil(base.read_bytes()))
    again = Node(tmp_path, START + 1)
    assert base.name in caplog.text
    assert again.engine.epoch == START + 1 > epoch
    assert again.since("/s/0", epoch, 1) == ["last"]
    assert again.send("/s/0", "next") == [3]
    again.crash()
