"""A journal keeps released runs like publications: whole, at their positions, under their publisher's last number."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.core.broker.column_batches import RunOutcome, release_runs
from fastpath.core.protocol.columns import ColumnBatch, expand
from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.journal import sync as journal_sync
from fastpath.engine.journal.format import LAYOUT, MESSAGES, RUNS, Subject, read_subjects
from tests.support.engine.disks import room_for
from tests.support.engine.journals import START, Node
from tests.support.waiting import auntil

KEY = "3:bob:tx"
SMALL = Limits(cache_messages=4)
VALUE = st.sampled_from(["", "7", "€", b"\x00"])
META = st.none() | st.sampled_from(
    [{"retained": False}, {"closure": "c"}, {"as_of": {"version": 3}}, {"as_of": "x"}, {"qos": STANDARD}]
)


@st.composite
def a_run(draw: st.DrawFn) -> ColumnBatch:
    """A run as it is staged."""
    rows = draw(st.sampled_from([1, 2, 6]))
    column = st.lists(st.none() | VALUE, min_size=rows, max_size=rows)
    fields = draw(st.none() | st.dictionaries(st.sampled_from("ab"), column, max_size=2))
    contents = draw(st.lists(VALUE, min_size=rows, max_size=rows))
    return ColumnBatch(draw(st.sampled_from(["/s/a", "/s/b"])), contents, fields, draw(META))


def release(node: Node, runs: list[ColumnBatch], first: int = 1) -> list[RunOutcome]:
    """Release them at once; their outcomes."""
    told: list[RunOutcome] = []
    release_runs(node.broker, runs, KEY, first, node.now, told.extend)
    return told


def kept(node: Node) -> Any:
    """What a node holds, but for whose publications its messages are: of runs that is not kept with each row."""
    found = {}
    for subject, (position, number, ring, snapshot) in node.state().items():
        if position[1]:
            found[subject] = position, number, [row[:-2] for row in ring], snapshot and (snapshot[0][:-2], snapshot[1])
    versions = {topic.subject: topic.version for topic in node.broker.interest.topics.values() if topic.seq}
    return found, versions


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("release"), st.lists(a_run(), min_size=1, max_size=3)),
        st.tuples(st.just("base"), st.none()),
        st.tuples(st.just("crash"), st.none()),
        st.tuples(st.just("stop"), st.none()),
    ),
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_a_restart_finds_what_rows_published_one_by_one_would_leave(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    """Whatever comes between: bases, kills, ends in order, and releases that are repeated after them."""
    folder = tmp_path_factory.mktemp("runs")
    nodes = [Node(folder / "runs", limits=SMALL), Node(folder / "rows", limits=SMALL)]
    following = 1
    written = 0  # the last number that the log knows: standard quality alone is not written
    for what, runs in [*steps, ("crash", None)]:
        if what == "release":
            rows = [row for run in runs for row in expand(run, publisher=KEY, first=0)]
            outcomes = release(nodes[0], runs, following)
            nodes[1].publish(*rows)
            again = nodes[0].topic(runs[0].subject).seq
            assert release(nodes[0], runs, following) == outcomes
            assert nodes[0].topic(runs[0].subject).seq == again
            following += len(rows)
            if not all(run.standard for run in runs):
                written = following - 1
        elif what == "base":
            for node in nodes:
                base = node.begin_base()
                while base.slice(1):
                    pass
                base.finish()
        else:
            before = [kept(node) for node in nodes]
            for node in nodes:
                if what == "stop":
                    node.stop()
                else:
                    node.crash()
            nodes = [Node(folder / name, limits=SMALL) for name in ("runs", "rows")]
            assert kept(nodes[0]) == kept(nodes[1])
            assert numbered(kept(nodes[0])) == numbered(before[0])
            assert written <= nodes[0].engine.stored(KEY) < following
    for node in nodes:
        node.crash()
    shutil.rmtree(folder)


def numbered(state: Any) -> Any:
    """The positions and what is cached: snapshots of standard quality are not kept by a journal."""
    return {subject: one[:3] for subject, one in state[0].items()}


def test_one_record_a_release_and_killed_in_it_none_of_it_is_there(tmp_path: Path) -> None:
    """Cut at every byte of the last record: what came before it, whole, and the release is taken again."""
    node = Node(tmp_path / "one")
    release(node, [ColumnBatch("/s/a", ["1", "2"], {"f": ["x", None]}), ColumnBatch("/s/b", ["3"])])
    before, size = kept(node), node.file.stat().st_size
    release(
        node, [ColumnBatch("/s/a", ["4", "5", "6"]), ColumnBatch("/s/c", ["7"], None, {"as_of": {"version": 8}})], 4
    )
    after, whole = kept(node), node.file.read_bytes()
    name = node.file.name
    node.crash()
    for end in (*range(size, len(whole), 9), len(whole) - 1, len(whole)):
        folder = tmp_path / str(end)
        folder.mkdir()
        (folder / name).write_bytes(whole[:end])
        again = Node(folder)
        assert kept(again) == (after if end == len(whole) else before) or again.engine.epoch != node.engine.epoch
        assert again.engine.stored(KEY) == (7 if end == len(whole) else 3)
        assert release(again, [ColumnBatch("/s/a", ["4", "5", "6"])], 4) == [3]
        assert again.topic("/s/a").seq == 5
        again.crash()


def test_publications_and_releases_of_one_name_share_its_numbers(tmp_path: Path) -> None:
    """Also after a restart: what was published is known with its position, what was released is stale."""
    node = Node(tmp_path)
    assert node.send("/s/a", "1", publisher=KEY, publication=1) == [1]
    assert release(node, [ColumnBatch("/s/a", ["1", "2", "3"])], 1) == [3]
    assert node.send("/s/a", "4", publisher=KEY, publication=4) == [4]
    node.crash()
    again = Node(tmp_path)
    told = [again.send("/s/a", "x", publisher=KEY, publication=number)[0] for number in (1, 3, 4)]
    assert told[0] == (node.engine.epoch, 1)
    assert isinstance(told[1], tuple) and told[1][0] == "stale"
    assert told[2] == (node.engine.epoch, 4)
    assert again.since("/s/a", node.engine.epoch, 0) == ["1", "2", "3", "4"]
    again.crash()


def test_a_full_disk_refuses_a_release_as_one_and_takes_it_when_there_is_room(tmp_path: Path) -> None:
    """Nothing has changed; what is not numbered is refused with it; standard quality alone needs no disk."""
    node = Node(tmp_path)
    release(node, [ColumnBatch("/s/a", ["1"])])
    before, size = kept(node), node.file.stat().st_size
    runs = [
        ColumnBatch("/s/a", ["2"] * 50),
        ColumnBatch("/s/b", ["x"], None, {"qos": STANDARD}),
        ColumnBatch("/s/a", ["3"]),
    ]
    for room in range(size, size + 60, 7):
        with room_for(room):
            told = release(node, [ColumnBatch("/s/a", ["1"]), *runs])
        assert told == [1, *[("failed", "the journal cannot be written: File too large")] * 3]
        assert kept(node) == before
        assert node.file.stat().st_size == size
        assert node.engine.stored(KEY) == 1
    assert node.engine.figures()["journal_failed_writes"] == 9
    assert node.broker.counters.failures == {"failed": 9 * 52}
    with room_for(size):
        assert release(node, [ColumnBatch("/s/l", ["live"], None, {"qos": STANDARD})], 2) == [1]
    assert release(node, runs, 3) == [50, 1, 1]
    assert node.topic("/s/a").seq == 52
    node.crash()
    again = Node(tmp_path)
    assert again.topic("/s/a").seq == 52
    again.crash()


def test_what_cannot_be_synced_is_written_again_and_refused_while_nothing_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of both kinds, in a new segment; answers wait for the disk."""

    async def scenario() -> None:
        node = Node(tmp_path, batch=True)
        node.engine.run(asyncio.get_running_loop(), lambda: None)
        told: list[Any] = []
        broken = True
        sync = journal_sync.sync_data

        def failing(descriptor: int) -> None:
            if broken:
                raise OSError(5, "Input/output error")
            sync(descriptor)

        monkeypatch.setattr(journal_sync, "sync_data", failing)
        node.broker.publish(None, [Message("/s/a", "1")], node.now)
        release_runs(node.broker, [ColumnBatch("/s/a", ["2", "3"])], KEY, 1, node.now, told.append)
        await auntil(lambda: told)
        assert told[0][0][0] == "unavailable"
        for runs, first in (
            ([ColumnBatch("/s/a", ["4"])], 3),
            ([ColumnBatch("/s/a", ["2", "3"])], 1),
        ):  # new, and numbered before
            assert release(node, runs, first)[0][0] == "unavailable"  # type: ignore[index]
        broken = False
        node.engine._syncs._retry_at = 0
        await auntil(lambda: not node.engine._syncs.failed)
        written = [kind for kind, _ in node.engine._syncs._written]
        assert set(written) <= {MESSAGES, RUNS}
        release_runs(node.broker, [ColumnBatch("/s/a", ["4"])], KEY, 3, node.now, told.append)
        await auntil(lambda: len(told) == 2)
        assert told[1] == [1]
        node.engine.close()
        again = Node(tmp_path)
        assert again.since("/s/a", again.engine.epoch, 0) == ["1", "2", "3", "4"]
        assert again.engine.stored(KEY) == 3
        again.crash()

    asyncio.run(scenario())


def test_the_newest_version_of_a_subject_outlives_the_log_and_the_snapshot(tmp_path: Path) -> None:
    """By the log alone, and by a base; a later message without a version does not hide it."""
    node = Node(tmp_path, START)
    node.send("/s/a", "1", as_of={"version": 5})
    release(node, [ColumnBatch("/s/b", ["1"], None, {"as_of": {"version": 7}, "retained": False})])
    node.send("/s/a", "2")
    for _ in range(2):
        node.crash()
        node = Node(tmp_path, START)
        assert [node.topic(subject).version for subject in ("/s/a", "/s/b")] == [5, 7]
        assert node.send("/s/a", "x", as_of={"version": 4}) == [
            ("outdated", "version 4: the subject has version 5 already")
        ]
        base = node.begin_base()
        while base.slice(1):
            pass
        base.finish()
        for path in tmp_path.glob("*.log"):
            if path != node.file:
                path.unlink()
    node.crash()


def test_a_base_of_another_layout_or_an_earlier_version_is_read() -> None:
    """Without versions there are none."""
    for rows, version in (([Subject("/s/a", 1, 2, version=7)], 7), ([["/s/a", 1, 2, None, {"f": "x"}]], -1)):
        body = memoryview(msgspec.msgpack.encode(rows))
        for layout in (LAYOUT, [*LAYOUT, "later"]):
            (found,) = read_subjects(body, layout)
            assert (found.seq, found.version) == (2, version)
