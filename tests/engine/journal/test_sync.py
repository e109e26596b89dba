"""A full or broken disk: whole batches are refused with the reason, nothing acknowledged is lost, and it recovers."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path

import pytest

from fastpath.core.broker.admission import Outcome
from fastpath.core.protocol.messages import STANDARD, Message
from fastpath.engine.journal import engine as journal
from fastpath.engine.journal import sync as journal_sync
from fastpath.engine.journal.files import JournalError, check_folder
from fastpath.engine.order_fence import HELD_SECONDS, OrderFence
from tests.support.engine.disks import room_for
from tests.support.engine.journals import START, Node, rebooted
from tests.support.promises import kept
from tests.support.waiting import auntil


def test_a_full_disk_refuses_whole_batches_and_takes_them_again_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1", {"f": "1"}, publisher="p", publication=1)
    before, size = node.state(), node.file.stat().st_size
    for room in range(size, size + 100, 7):  # the write fails at once, or in its middle
        with room_for(room):
            told = node.publish(
                Message("/s/a", "1", publisher="p", publication=1),  # this has been stored, and is told so
                Message("/s/a", "2", {"f": "2"}, publisher="p", publication=2),
                Message("/s/new", "x"),
                Message("/s/a", "3", publisher="p", publication=3),
            )
        refused = ("failed", "the journal cannot be written: File too large")
        assert told == [(node.engine.epoch, 1), refused, refused, refused]
        assert node.file.stat().st_size == size
        assert {subject: one for subject, one in node.state().items() if one[0][1]} == before
        assert node.since("/s/a", node.engine.epoch, 0) == ["1"]
    assert caplog.text.count("publications are refused until it can be") == 1
    assert node.engine.figures()["journal_failed_writes"] > 10
    assert node.engine.trouble == "the journal cannot be written"
    with room_for(size):
        assert node.send("/s/a", "live", qos=STANDARD) == [0]
    assert node.send("/s/a", "2", publisher="p", publication=2) == [2]
    assert "the journal can be written again" not in caplog.text
    monkeypatch.setattr(journal, "CALM_SECONDS", 0)
    assert node.engine.trouble == "", "nobody publishes any more: it may work again"
    assert node.send("/s/new", "1") == [1]
    assert "the journal can be written again" in caplog.text
    node.crash()
    again = Node(tmp_path)
    assert again.since("/s/a", again.engine.epoch, 0) == ["1", "2"]
    assert again.engine.holes == 0
    assert again.send("/s/a", "2", publisher="p", publication=2) == [(again.engine.epoch, 2)]
    again.crash()


def test_a_node_starts_on_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path)
    node.send("/s/a", "1", {"f": "1"})
    before, epoch = node.state(), node.engine.epoch
    with node.file.open("ab") as file:
        file.write(node.file.read_bytes()[8:14])  # the next record was begun
    node.crash()
    with room_for(0):
        node = Node(tmp_path, START + 1)
        assert node.engine.epoch == epoch
        assert node.state() == before
        assert node.send("/s/a", "2") == [("failed", "the journal cannot be written: File too large")]
        assert node.engine.figures()["journal_failed_writes"] == 1
    assert caplog.text.count("publications are refused until it can be") == 1
    assert len(list(tmp_path.glob("*.log"))) == 1
    assert node.send("/s/a", "2") == [2]
    node.crash()
    again = Node(tmp_path, START + 2)
    assert again.since("/s/a", epoch, 0) == ["1", "2"]
    assert again.engine.epoch == epoch
    again.crash()
    with room_for(0):
        node = Node(tmp_path, START + 3)
        node.stop()
    again = Node(tmp_path, START + 4)
    assert (again.engine.epoch, again.engine.holes) == (epoch, 0)
    again.crash()


def test_what_cannot_be_encoded_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.send("/s/a", "half a character: \ud800")[0][0] == "failed"  # type: ignore[index]
    assert node.send("/s/a", "1", as_of=1 << 70)[0][0] == "failed"  # type: ignore[index]
    assert node.send("/s/a", "1") == [1]
    node.crash()


def test_where_a_new_segment_cannot_be_begun_the_old_one_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path, segment_bytes=300)
    while node.file.stat().st_size <= 300:
        node.send("/s/a", "x")
    full = node.file
    (tmp_path / "000000000002.log").mkdir()
    assert node.send("/s/a", "y") == [node.topic("/s/a").seq]
    node.send("/s/a", "y")
    assert node.file == full
    assert caplog.text.count("cannot begin a new segment") == 1
    (tmp_path / "000000000002.log").rmdir()
    node.send("/s/a", "z")
    assert node.file != full
    before = node.state()
    node.crash()
    again = Node(tmp_path)
    assert again.state() == before
    again.crash()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        with pytest.raises(JournalError, match=f"cannot write to {path}"):
            check_folder(str(path))
        with pytest.raises(JournalError, match=f"cannot write to {path}"):
            Node(path)
    check_folder(str(tmp_path / "new" / "folder"))
    assert not (tmp_path / "new").exists()


class Waiting:
    """Acknowledgements in the order in which they came."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.told: list[tuple[str, list[Outcome]]] = []

    def send(self, subject: str, content: str, **more: object) -> None:
        def done(outcomes: list[Outcome]) -> None:
            self.told.append((content, outcomes))

        self.node.broker.publish(None, [Message(subject, content, **more)], self.node.now, done)  # type: ignore[arg-type]


async def test_with_batch_the_acknowledgement_comes_after_the_sync_and_one_covers_many(tmp_path: Path) -> None:
    node = Node(tmp_path, batch=True)
    after: list[int] = []
    waiting = Waiting(node)
    node.engine.run(asyncio.get_running_loop(), lambda: after.append(len(waiting.told)))
    for number in range(10):
        waiting.send("/s/a", str(number))
    waiting.send("/s/a", "standard", qos=STANDARD)
    kept(waiting.told == [], "acknowledged before it is on the disk")
    assert node.topic("/s/a").seq == 10  # delivered without waiting
    await auntil(lambda: len(waiting.told) == 11)
    assert waiting.told == [*((str(number), [number + 1]) for number in range(10)), ("standard", [0])]
    assert after == [11]
    node.stop()


async def test_what_is_not_acknowledged_yet_is_when_the_node_stops(tmp_path: Path) -> None:
    node = Node(tmp_path, batch=True)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    waiting = Waiting(node)
    waiting.send("/s/a", "1")
    node.stop()
    assert waiting.told == [("1", [1])]


def test_a_disk_that_does_not_keep_up_is_given_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "UNSYNCED_BYTES_MAX", 1000)
    node = Node(tmp_path)
    told: list[Outcome] = []
    while not told or type(told[-1]) is int:
        told += node.send("/s/a", "x" * 100)
    assert told[-1] == ("unavailable", "the disk does not keep up: too much waits to be synced")
    assert 4 < len(told) < 12
    assert node.send("/s/a", "x", qos=STANDARD) == [0]
    node.crash()


def test_what_it_did_not_take_comes_before_what_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)

    def messages(*numbers: int) -> list[Message]:
        return [Message("/s/a", str(number), publisher="p", publication=number) for number in numbers]

    def codes(outcomes: list[Outcome]) -> list[object]:
        return [one if isinstance(one, int) else one[0] for one in outcomes]

    assert node.publish(*messages(1)) == [1]
    with monkeypatch.context() as patch:
        patch.setattr(journal, "UNSYNCED_BYTES_MAX", 0)
        assert codes(node.publish(*messages(2, 3))) == ["unavailable"] * 2
    others = Message("/s/a", "other", publisher="q", publication=7), Message("/s/a", "none")
    told = node.publish(*messages(4), others[0], *messages(5), others[1])
    assert codes(told) == ["unavailable", 2, "unavailable", 3]
    assert codes(node.publish(*messages(6))) == ["unavailable"]
    assert codes(node.publish(*messages(2, 3, 4, 5, 6))) == [4, 5, 6, 7, 8]
    assert node.since("/s/a", node.engine.epoch, 1) == ["other", "none", "2", "3", "4", "5", "6"]
    node.crash()
    again = Node(tmp_path)
    assert again.since("/s/a", again.engine.epoch, 3) == ["2", "3", "4", "5", "6"]
    again.crash()


def test_who_never_sends_it_again_waits_from_when_it_takes_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    now = 100.0
    monkeypatch.setattr(journal.time, "monotonic", lambda: now)
    node.engine._holds = OrderFence(journal.time.monotonic)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "UNSYNCED_BYTES_MAX", -1)
        assert node.send("/s/a", "1", publisher="p", publication=1)[0][0] == "unavailable"  # type: ignore[index]
        now += HELD_SECONDS * 2
        assert node.send("/s/a", "5", publisher="p", publication=5)[0][0] == "unavailable"  # type: ignore[index]
    now += HELD_SECONDS * 2
    assert node.send("/s/a", "2", publisher="p", publication=2)[0][0] == "unavailable"  # type: ignore[index]
    now += HELD_SECONDS + 0.1
    assert node.send("/s/a", "3", publisher="p", publication=3) == [1]
    assert not node.engine._holds
    node.crash()


async def test_it_takes_more_once_that_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "UNSYNCED_BYTES_MAX", 1000)
    node = Node(tmp_path, batch=True)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    waiting = Waiting(node)
    for number in range(20):
        waiting.send("/s/a", "x" * 100)
        await auntil(lambda: len(waiting.told) == number + 1)  # noqa: B023
    assert [outcomes for _, outcomes in waiting.told] == [[number + 1] for number in range(20)]
    node.stop()


async def test_a_sync_that_fails_while_the_node_stops_is_no_clean_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path, batch=True)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    await auntil(lambda: node.engine._syncs._running is None)  # the first one, of the names
    syncs: list[int] = []

    def broken_once(descriptor: int) -> None:
        syncs.append(descriptor)
        if len(syncs) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(journal_sync, "sync_data", broken_once)
    waiting = Waiting(node)
    waiting.send("/s/a", "1")
    await asyncio.sleep(0)  # the sync begins
    node.stop()
    assert len(syncs) == 1
    assert waiting.told[-1][1][0][0] == "unavailable"  # type: ignore[index]
    rebooted(monkeypatch)
    again = Node(tmp_path, START + 1)
    assert again.engine.epoch == START + 1
    again.crash()


async def test_with_interval_it_is_synced_within_the_second(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    waiting = Waiting(node)
    waiting.send("/s/a", "1")
    assert waiting.told == [("1", [1])]
    assert node.engine._syncs._written
    await auntil(lambda: not node.engine._syncs._written and node.engine._syncs._running is None)
    assert node.engine.figures()["journal_sync_ms"] > 0
    node.stop()


async def test_after_a_sync_that_fails_all_is_written_again_and_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path, batch=True)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    waiting = Waiting(node)
    waiting.send("/s/a", "1")
    await auntil(lambda: len(waiting.told) == 1)
    first = node.file
    reading, writing = os.pipe()  # takes what is written, and cannot be synced
    assert node.engine._file is not None
    os.dup2(writing, node.engine._file.descriptor)
    waiting.send("/s/a", "2", publisher="p", publication=1)
    waiting.send("/s/b", "3")
    await auntil(lambda: len(waiting.told) == 3)
    assert waiting.told[1:] == [("2", [2]), ("3", [1])]
    assert node.file != first
    assert "the journal cannot be synced to the disk: Invalid argument" in caplog.text
    assert node.engine.figures()["journal_failed_writes"] == 1
    os.close(reading)
    os.close(writing)
    before = node.state()
    node.crash()
    again = Node(tmp_path, START + 1)
    assert again.state() == before
    again.crash()


async def test_while_it_cannot_be_synced_nothing_is_acknowledged_or_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    node = Node(tmp_path, batch=True)
    node.engine.run(asyncio.get_running_loop(), lambda: None)
    waiting = Waiting(node)

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    waiting.send("/s/a", "0")
    await auntil(lambda: len(waiting.told) == 1)
    waiting.told.clear()
    monkeypatch.setattr(journal_sync, "sync_data", broken)
    waiting.send("/s/a", "1", publisher="p", publication=1)
    waiting.send("/s/a", "standard", qos=STANDARD)
    await auntil(lambda: len(waiting.told) == 2)
    why = "the journal cannot be synced to the disk: Input/output error"
    assert waiting.told == [("1", [("unavailable", why)]), ("standard", [0])]
    assert node.broker.counters.failures == {"unavailable": 1}
    waiting.send("/s/a", "1", publisher="p", publication=1)
    waiting.send("/s/a", "2")
    waiting.send("/s/a", "standard", qos=STANDARD)
    assert waiting.told[2:] == [("1", [("unavailable", why)]), ("2", [("unavailable", why)]), ("standard", [0])]
    assert node.broker.counters.failures == {"unavailable": 3}
    assert node.since("/s/a", node.engine.epoch, 0) == ["0", "1"]  # reads go on
    monkeypatch.undo()
    await auntil(lambda: not node.engine._syncs.failed)
    await auntil(lambda: "is synced again" in caplog.text)
    waiting.send("/s/a", "1", publisher="p", publication=1)
    waiting.send("/s/a", "2")
    await auntil(lambda: len(waiting.told) == 7)
    assert waiting.told[5:] == [("1", [(node.engine.epoch, 2)]), ("2", [3])]
    before = node.state()
    node.crash()
    again = Node(tmp_path, START + 1)
    assert again.state() == before
    again.crash()
