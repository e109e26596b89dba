"""After a crash all is there; a damaged record costs itself, and nobody is told falsely that he missed nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fastpath.core.protocol.limits import Limits
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.journal.files import JournalError
from fastpath.engine.journal.format import JournalRecord, read_records
from tests.support.engine.journals import START, Node, rebooted


def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1", {"bid": "1", "ask": "2"})
    node.send("/s/b", "x", retained=False, closure="c", reply_to="/r/r", as_of="2026")
    node.now += 10
    node.send("/s/a", "2", {"bid": "3"}, publisher="p", publication=1)
    node.send("/s/a", b"\x00bytes", {"raw": b"\xff"})  # type: ignore[arg-type, dict-item]
    before, epoch = node.state(), node.engine.epoch
    node.crash()
    again = Node(tmp_path, node.now + 5)
    assert again.state() == before
    assert again.engine.epoch == epoch
    assert again.send("/s/a", "3") == [4]
    assert again.since("/s/a", epoch, 1) == ["2", b"\x00bytes", "3"]
    again.crash()


@pytest.mark.parametrize("in_a_base", [False, True])
def test_an_as_of_of_before_is_read_as_its_digits(tmp_path: Path, in_a_base: bool) -> None:
    """What an earlier version has stored that not every client can read: in the log, and in a base."""
    node = Node(tmp_path)
    node.send("/s/a", "1", as_of=1_795_883_791_704_842_422)
    if in_a_base:
        writer = node.begin_base()
        while writer.slice(0):
            pass
        writer.finish()
        assert list(tmp_path.glob("*.base"))
    node.crash()
    node = Node(tmp_path)
    topic = node.topic("/s/a")
    held = [*(topic.ring or ()), *([topic.snapshot.newest] if topic.snapshot else ())]
    assert held
    assert {one.as_of for one in held} == {"1795883791704842422"}
    node.crash()


def test_a_publication_that_comes_again_after_a_crash_is_stored_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    one = Message("/s/a", "1", publisher="p", publication=7)
    assert node.publish(one) == [1]
    node.crash()
    node = Node(tmp_path, START + 1000)
    epoch = node.engine.epoch
    again = Message("/s/a", "1", publisher="p", publication=7)
    assert node.publish(again, Message("/s/a", "2", publisher="p", publication=8)) == [(epoch, 1), 2]
    assert node.since("/s/a", epoch, 0) == ["1", "2"]
    assert node.send("/s/a", "x", publisher="p", publication=3)[0][0] == "stale"  # type: ignore[index]
    node.crash()


def test_what_is_of_standard_quality_is_in_no_journal(tmp_path: Path) -> None:
    node = Node(tmp_path)
    size = node.file.stat().st_size
    assert node.send("/s/a", "1", qos=STANDARD) == [0]
    assert node.file.stat().st_size == size
    assert node.publish(Message("/s/a", "2", qos=STANDARD), Message("/s/a", "3")) == [0, 1]
    node.crash()
    node = Node(tmp_path)
    assert node.since("/s/a", node.engine.epoch, 0) == ["3"]
    node.crash()


def test_only_what_is_younger_than_the_cache_time_comes_into_the_cache(tmp_path: Path) -> None:
    limits = Limits(cache_ms=10_000)
    node = Node(tmp_path, limits=limits)
    node.send("/s/a", "old", {"f": "1"})
    node.now += 8000
    node.send("/s/a", "young")
    node.send("/s/b", "b")
    node.crash()
    node = Node(tmp_path, START + 11_000, limits=limits)
    epoch = node.engine.epoch
    assert node.since("/s/a", epoch, 0) is None
    assert node.since("/s/a", epoch, 1) == ["young"]
    assert node.topic("/s/a").snapshot.fields == {"f": "1"}  # type: ignore[union-attr]
    node.crash()
    node = Node(tmp_path, START + 3_600_000, limits=limits)
    assert (node.topic("/s/a").seq, node.broker.history.messages) == (2, 0)
    assert node.since("/s/a", epoch, 2) == []
    node.crash()


def test_a_snapshot_that_had_expired_is_begun_anew(tmp_path: Path) -> None:
    limits = Limits(snapshot_ms=1000)
    node = Node(tmp_path, limits=limits)
    node.send("/s/a", "1", {"old": "1"})
    node.now += 1001
    node.send("/s/a", "2", {"new": "2"})
    node.crash()
    again = Node(tmp_path, node.now, limits=limits)
    assert again.state() == node.state()
    assert again.topic("/s/a").snapshot.fields == {"new": "2"}  # type: ignore[union-attr]
    again.crash()


def test_the_cache_after_a_replay_keeps_its_bounds(tmp_path: Path) -> None:
    limits = Limits(cache_messages=20, cache_bytes=30_000)
    node = Node(tmp_path, limits=limits)
    for number in range(300):
        node.send(f"/s/{number % 7}", "x" * 50)
    node.crash()
    again = Node(tmp_path, limits=limits)
    assert again.state() == node.state()
    assert again.broker.history.bytes == node.broker.history.bytes <= 30_000
    assert again.broker.history.evicted_by_memory == again.broker.history.evicted_by_count == 0
    again.crash()


def test_a_clock_that_was_set_back_leaves_nothing_in_the_future(tmp_path: Path) -> None:
    node = Node(tmp_path, START + 3_600_000)
    node.send("/s/a", "1")
    node.crash()
    again = Node(tmp_path, START)
    assert [message.time for message in again.topic("/s/a").ring or ()] == [START]
    assert again.topic("/s/a").snapshot.newest.time == START  # type: ignore[union-attr]
    assert again.engine.epoch == node.engine.epoch
    again.broker.history.expire(START + 180_000)
    assert again.broker.history.messages == 0
    again.crash()


def test_the_epoch_goes_on_unless_numbers_may_have_been_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    first = node.engine.epoch
    node.send("/s/a", "1")
    node.crash()
    rebooted(monkeypatch)
    node = Node(tmp_path, START + 100)
    assert node.engine.epoch == START + 100 > first
    assert node.send("/s/a", "2") == [2]
    assert node.since("/s/a", first, 1) == ["2"]
    assert node.since("/s/a", first, 2) is None  # it has read what this machine does not know of
    node.stop()
    rebooted(monkeypatch)
    node = Node(tmp_path, START + 200)
    assert node.engine.epoch == START + 100
    node.crash()
    rebooted(monkeypatch)
    node = Node(tmp_path, START)  # the clock was set back
    assert node.engine.epoch == START + 101
    node.crash()


def test_a_copy_of_a_journal_goes_on_in_a_new_epoch(tmp_path: Path) -> None:
    node = Node(tmp_path / "one")
    node.send("/s/a", "1")
    node.stop()
    (tmp_path / "two").mkdir()
    for path in (tmp_path / "one").iterdir():
        (tmp_path / "two" / path.name).write_bytes(path.read_bytes())
    copy = Node(tmp_path / "two", START + 1)
    assert copy.engine.epoch == START + 1
    assert copy.topic("/s/a").snapshot.newest.content == "1"  # type: ignore[union-attr]
    copy.crash()


def fill(folder: Path) -> tuple[Node, list[int]]:
    """A journal of seven batches for three subjects that has crashed, and where its records begin."""
    node = Node(folder)
    node.publish(Message("/s/a", "a1", {"n": "1"}), Message("/s/b", "b1"))
    node.publish(Message("/s/a", "a2", {"m": "2"}))
    node.publish(Message("/s/b", "b2"), Message("/s/c", "c1"))
    node.publish(Message("/s/a", "a3", {"n": "3"}), Message("/s/b", "b3"))
    node.publish(Message("/s/a", "a4"))
    node.publish(Message("/s/a", "a5", publisher="p", publication=1), Message("/s/c", "c2"))
    node.publish(Message("/s/a", "a6", publisher="p", publication=2))
    node.crash()
    with node.file.open("rb") as file:
        return node, [one.offset for one in read_records(file) if isinstance(one, JournalRecord)][1:]


ALL = {"/s/a": ["a1", "a2", "a3", "a4", "a5", "a6"], "/s/b": ["b1", "b2", "b3"], "/s/c": ["c1", "c2"]}
OF_RECORD = [("a1", "b1"), ("a2",), ("b2", "c1"), ("a3", "b3"), ("a4",), ("a5", "c2"), ("a6",)]


def test_torn_at_every_byte_of_the_last_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node, starts = fill(tmp_path)
    epoch, whole = node.engine.epoch, node.file.read_bytes()
    for cut in range(starts[3], len(whole) + 1):
        node.file.write_bytes(whole[:cut])
        caplog.clear()
        again = Node(tmp_path, START + 1)
        good = sum(end <= cut for end in [*starts[1:], len(whole)])
        left = {content for contents in OF_RECORD[:good] for content in contents}
        for subject, contents in ALL.items():
            assert again.since(subject, epoch, 0) == [one for one in contents if one in left], cut
        assert again.engine.epoch == epoch
        assert ("cut at byte" in caplog.text) == (cut != [*starts, len(whole)][good])
        assert again.send("/s/a", "new") == [len(left & set(ALL["/s/a"])) + 1]
        assert again.send("/s/a", "x", publisher="p", publication=1) == [
            (epoch, 5) if "a5" in left else len(left & set(ALL["/s/a"])) + 2
        ]
        again.crash()
        third = Node(tmp_path, START + 2)  # what was cut does not count as damage ever after
        assert third.engine.epoch == epoch
        assert third.state() == again.state()
        third.vanish()
        again.file.unlink()


@pytest.mark.parametrize("record", [0, 2, 3, 5, 6])
def test_corrupt_at_every_byte_of_a_record(tmp_path: Path, caplog: pytest.LogCaptureFixture, record: int) -> None:
    node, starts = fill(tmp_path)
    whole = node.file.read_bytes()
    end = [*starts, len(whole)][record + 1]
    for at in range(starts[record], end):
        spoilt = bytearray(whole)
        spoilt[at] ^= 0xFF
        node.file.write_bytes(spoilt)
        caplog.clear()
        again = Node(tmp_path, START + 1)
        assert (
            f"{node.file.name}: {end - starts[record]} bytes from byte {starts[record]} on are damaged" in caplog.text
        )
        assert (again.engine.epoch, again.engine.holes) == (START + 1, 1)
        tell_the_truth(again, record, at, [])
        seq = 5 if record == 6 else 6
        assert again.send("/s/a", "new1") == [seq + 1]
        assert again.send("/s/a", "new2") == [seq + 2]
        tell_the_truth(again, record, at, ["new1", "new2"])
        again.crash()
        third = Node(tmp_path, START + 2)  # the hole is still there
        assert third.engine.epoch == START + 2
        assert [one[1] for one in third.state().values()] == [one[1] for one in again.state().values()]
        tell_the_truth(third, record, at, ["new1", "new2"])
        third.vanish()
        again.file.unlink()


def tell_the_truth(node: Node, record: int, at: int, new: list[str]) -> None:
    """Whoever comes back gets exactly what he has not read, or is told that he may have missed some."""
    lost = set(OF_RECORD[record])
    later = {content for contents in OF_RECORD[record + 1 :] for content in contents}
    for subject, contents in ALL.items():
        truth = contents + (new if subject == "/s/a" else [])
        for read in range(len(contents) + 1):
            got = node.since(subject, START, read)
            if lost.isdisjoint(contents) and not later.isdisjoint(contents):  # it is seen that nothing is missing
                assert got == truth[read:], (subject, read, at)
            else:
                assert got in (None, truth[read:]), (subject, read, at)


def test_pages_that_were_never_written_when_the_power_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, starts = fill(tmp_path)
    whole = node.file.read_bytes()
    node.file.write_bytes(whole[: starts[5] + 3] + bytes(4096 - starts[5] - 3))
    rebooted(monkeypatch)
    node = Node(tmp_path, START + 1)
    assert node.engine.holes == 0
    assert node.engine.epoch == START + 1
    assert node.since("/s/a", START, 0) == ["a1", "a2", "a3", "a4"]
    node.crash()


def test_a_segment_that_is_missing_is_a_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path)
    for content in ("1", "2", "3"):
        node.send("/s/a", content)
        node.send("/s/b", content) if content == "1" else None
        node.engine._next_file()
    node.crash()
    epoch = node.engine.epoch
    (tmp_path / "000000000002.log").unlink()
    node = Node(tmp_path, START + 1)
    assert "1 segments before it are missing" in caplog.text
    assert node.since("/s/a", epoch, 1) is None
    assert node.since("/s/a", epoch, 2) == ["3"]
    assert node.since("/s/b", epoch, 1) is None
    assert node.engine.epoch == START + 1
    node.crash()


def test_a_hole_in_what_a_base_stands_for_costs_cached_messages_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for content in ("1", "2", "3"):
        one = Message("/s/a", content, publisher="p", publication=int(content))
        node.publish(one, *([Message("/s/b", "b")] if content == "2" else []))
        spoilt = node.file
        node.engine._next_file()
        if content == "2":
            spoilt.write_bytes(spoilt.read_bytes()[:-10] + b"0123456789")
    writer = node.begin_base()
    while writer.slice(1):
        pass
    writer.finish()
    node.send("/s/a", "4", publisher="p", publication=4)
    node.crash()
    epoch = node.engine.epoch
    again = Node(tmp_path, START + 1)
    assert again.engine.holes > 0
    assert again.engine.epoch == epoch
    assert [again.since("/s/a", epoch, seq) for seq in range(5)] == [None, None, ["3", "4"], ["4"], []]
    assert [again.since("/s/b", epoch, seq) for seq in range(2)] == [None, []]
    assert again.send("/s/a", "2", publisher="p", publication=2)[0][0] in ("stale", "out_of_order")  # type: ignore[index]
    assert again.send("/s/b", "next") == [2]
    again.crash()


@pytest.mark.parametrize("new", [[], ["new"]])
def test_what_came_after_a_hole_does_not_close_it_behind_a_base(tmp_path: Path, new: list[str]) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1")
    node.send("/s/a", "2")
    node.crash()
    node.file.write_bytes(node.file.read_bytes()[:-10] + b"0123456789")
    node = Node(tmp_path, START + 1)
    assert node.send("/s/b", "other") == [1]
    for content in new:
        assert node.send("/s/a", content) == [2]
    assert node.since("/s/a", START, 1) is None
    writer = node.begin_base()
    while writer.slice(1):
        pass
    writer.finish()
    node.crash()
    again = Node(tmp_path, START + 2)
    assert again.engine.epoch == START + 1
    assert [again.since("/s/a", START, seq) for seq in range(3)] == [None] * 3
    assert again.since("/s/a", START + 1, 1 + len(new)) == []
    again.crash()


def test_an_empty_segment_among_others_is_a_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1")
    first = node.file
    node.engine._next_file()
    node.send("/s/b", "2")
    node.crash()
    first.write_bytes(b"")
    node = Node(tmp_path, START + 1)
    assert f"{first.name}: the file is empty" in caplog.text
    assert node.engine.epoch == START + 1
    node.crash()


def test_a_folder_is_for_one_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpath.engine.journal.files.LOCK_SECONDS", 0.1)
    node = Node(tmp_path)
    with pytest.raises(JournalError, match="belongs to a sidecar that is running"):
        Node(tmp_path)
    node.crash()
    Node(tmp_path).crash()


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpath.engine.journal.files.JournalHeader", _later)
    Node(tmp_path).crash()
    monkeypatch.undo()
    with pytest.raises(JournalError, match="newer version"):
        Node(tmp_path)


def _later(*arguments: object) -> object:
    from fastpath.engine.journal.format import JournalHeader

    return JournalHeader(*arguments, version=99)  # type: ignore[arg-type]


def test_a_long_replay_says_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    fill(tmp_path)
    monkeypatch.setattr("fastpath.engine.journal.replay.PROGRESS_SECONDS", 0)
    Node(tmp_path).crash()
    assert "replaying: 0 of 0 MiB, 2 messages" in caplog.text
