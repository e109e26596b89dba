"""What is handed in is written in order; what has no room, or cannot be written, is told to who handed it in."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from fastpath.logs.writer_thread import WriterThread
from tests.support.waiting import until


class Kept(WriterThread[str]):
    """Keeps what it is to write, unless it fails."""

    def __init__(self, batch_bytes: int = 0) -> None:
        super().__init__("kept", 3, 10, batch_bytes)
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        self.batches: list[list[str]] = []
        self.lost: list[str] = []
        self.said: list[str] = []

    def put(self, item: str) -> bool:
        room = self.has_room(1, len(item))
        if room:
            self.hand_in(item, 1, len(item))
        return room

    def _write(self, items: Sequence[str]) -> None:
        self.gate.wait(10)
        if self.fails:
            raise OSError("no")
        self.batches.append(list(items))

    def _lose(self, items: Sequence[str]) -> None:
        self.lost += items

    def _fails(self, why: OSError) -> None:
        self.said.append(str(why))

    def _recovers(self) -> None:
        self.said.append("again")


@pytest.mark.parametrize(("items", "room"), [(["1"] * 4, [True] * 3 + [False]), (["12345"] * 3, [True, True, False])])
def test_lines_and_bytes_that_wait_are_bounded(items: list[str], room: list[bool]) -> None:
    kept = Kept()
    assert [kept.put(item) for item in items] == room
    kept.start()
    assert kept.stop()
    assert [item for batch in kept.batches for item in batch] == items[: sum(room)]
    assert kept.put(items[0]), "what was taken leaves its room to others"


@pytest.mark.parametrize(("batch_bytes", "batches"), [(0, [["a"], ["b"], ["c"]]), (2, [["a", "b"], ["c"]])])
def test_so_much_is_written_together(batch_bytes: int, batches: list[list[str]]) -> None:
    kept = Kept(batch_bytes)
    for item in "abc":
        kept.put(item)
    kept.start()
    kept.stop()
    assert kept.batches == batches


def test_after_a_failure_nothing_is_tried_for_a_while_but_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastpath.logs.writer_thread.RETRY_SECONDS", 60)
    kept = Kept()
    kept.fails = True
    kept.start()
    kept.put("a")
    until(lambda: kept.lost == ["a"])
    kept.fails = False
    kept.put("b")
    until(lambda: kept.lost == ["a", "b"])
    assert kept.stop(last="end")
    assert (kept.batches, kept.said) == ([["end"]], ["no", "again"])


def test_an_end_is_not_waited_for_longer_than_asked() -> None:
    kept = Kept()
    kept.gate.clear()
    kept.start()
    kept.put("a")
    assert not kept.stop(0.01)
    kept.gate.set()
    assert kept.stop()
    assert kept.batches == [["a"]]
