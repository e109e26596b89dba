"""However much one publisher sends at once, others have their turn behind each slice of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fastpath.edge.publishers import batch_slices
from fastpath.edge.publishers import connection as publishers
from fastpath.edge.publishers.batch_slices import SLICE_ROWS_MAX, SLICE_ROWS_MIN, BatchSlices, next_slice
from fastpath.edge.publishers.connection import PublisherConnection
from tests.support.edge.lives import Life, Wire
from tests.support.edge.wire import packed

BATCHES, ROWS = 10, 200


class Busy(Life):
    """A process with a second publisher; ``order`` is whose message was delivered when."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.order: list[str] = []
        deliver = self.runtime.broker.deliver

        def noted(messages: Any, *rest: Any, **more: Any) -> Any:
            self.order += [message.subject for message in messages]
            return deliver(messages, *rest, **more)

        self.runtime.broker.deliver = noted  # type: ignore[method-assign]
        self.other, self.other_wire = PublisherConnection(self.runtime), Wire()
        self.other.connection_made(self.other_wire)
        self.other.data_received(packed("hello", {"version": 1}))
        del self.wire.packets[:]
        self.wire.can_write_eof = lambda: False  # type: ignore[method-assign]
        self.wire.close = lambda: None  # type: ignore[method-assign]

    def until(self, count: int) -> None:
        """So many answers to the first publisher."""

        async def answered() -> None:
            while len(self.wire.packets) < count:  # noqa: ASYNC110 - each turn of the loop counts
                await asyncio.sleep(0)

        self.loop.run_until_complete(asyncio.wait_for(answered(), 30))


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turns in which nothing but one slice has its time."""
    monkeypatch.setattr(publishers, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(batch_slices, "TURN_SECONDS", 0.0)
    life = Busy(tmp_path)
    yield life
    life.end()


def rows(subject: str, count: int) -> list[list[str]]:
    return [[subject, str(number)] for number in range(count)]


@pytest.mark.parametrize("content", ["text", b"binary"])
def test_of_many_batches_in_one_read_others_wait_for_one(busy: Busy, content: str | bytes) -> None:
    """In their common form, which is decoded in one go, as in any other."""
    sent = [["/flood/a", content]] * ROWS
    busy.publisher.data_received(b"".join(packed("batch", number, sent) for number in range(1, BATCHES + 1)))
    busy.other.data_received(packed("batch", 1, [["/other/b", "x"]]))
    busy.until(BATCHES)
    assert busy.order.index("/other/b") in (ROWS, 2 * ROWS), "behind the first batch, or the turn of the second"
    assert busy.order.count("/flood/a") == BATCHES * ROWS
    assert [packet[:2] for packet in busy.wire.packets] == [["ack", number] for number in range(1, BATCHES + 1)]


def test_of_a_large_batch_others_wait_for_a_slice(busy: Busy) -> None:
    """It is acknowledged as one, with an outcome a row, in the rows' order."""
    sent = rows("/flood/a", 5000)
    sent[4000] = ["no subject", "x"]
    busy.publisher.data_received(packed("batch", 1, sent) + packed("ping", 2))
    waited = []
    for number in range(1, 6):
        before = busy.order.count("/flood/a")
        busy.other.data_received(packed("batch", number, [["/other/b", "x"]]))
        while busy.order.count("/other/b") < number:
            busy.loop.run_until_complete(asyncio.sleep(0))
        waited.append(busy.order[: len(busy.order) - busy.order[::-1].index("/other/b")].count("/flood/a") - before)
    assert all(rows <= SLICE_ROWS_MIN for rows in waited), "one slice, and each of them takes too long here"
    busy.until(2)
    [ack, pong] = busy.wire.packets
    assert (ack[:2], pong) == (["ack", 1], ["pong", 2]), "in their order"
    outcomes = ack[3]
    first = outcomes[0]
    assert outcomes == [*range(first, first + 4000), outcomes[4000], *range(first + 4000, first + 4999)]
    assert outcomes[4000][0] == "invalid"


def test_numbers_go_on_over_the_slices(busy: Busy) -> None:
    """So that all of it that comes again is stored once."""
    named, wire = PublisherConnection(busy.runtime), Wire()
    named.connection_made(wire)
    named.data_received(packed("hello", {"version": 1, "publisher": "p"}))
    busy.wire = wire
    for number in (1, 2):
        del wire.packets[:]
        named.data_received(packed("batch", number, rows("/named/a", 1000), 7))
        busy.until(1)
        assert [one if isinstance(one, int) else one[1] for one in wire.packets[0][3]] == list(range(1, 1001))
    assert busy.order.count("/named/a") == 1000


@pytest.mark.parametrize("end", ["leave", "drain"])
def test_a_batch_that_was_begun_is_finished(busy: Busy, end: str) -> None:
    """Half of a batch without an answer would come twice."""
    busy.publisher.data_received(packed("batch", 1, rows("/flood/a", 5000)) + packed("batch", 2, rows("/flood/c", 1)))
    assert not busy.wire.packets
    getattr(busy.publisher, end)()
    assert [packet[0] for packet in busy.wire.packets] == ["ack", "close"]
    assert len(busy.wire.packets[0][3]) == 5000
    assert "/flood/c" not in busy.order, "what was not begun is not taken"


def test_many_publishers_wait_for_each_other(busy: Busy) -> None:
    """Who comes in a turn whose time others have had waits for a turn of its own."""
    busy.runtime.scheduler.spend(1.0)
    busy.publisher.data_received(packed("batch", 1, rows("/flood/a", 200)))
    assert not busy.order
    busy.other.data_received(packed("batch", 1, rows("/other/b", 1)))
    assert busy.order == ["/other/b"], "who says little at a time does not"
    busy.until(1)
    assert busy.order[1:] == ["/flood/a"] * 200


def test_very_many_small_frames_are_cut_in_turns(busy: Busy) -> None:
    """To read them takes longer than a turn by itself."""
    busy.publisher.data_received(packed("ping", 1) * 10_000 + packed("batch", 1, rows("/flood/a", 1)))
    assert len(busy.publisher._frames) < 1000, "the rest is bytes still"
    busy.other.data_received(packed("batch", 1, rows("/other/b", 1)))
    busy.until(10_001)
    assert busy.order == ["/other/b", "/flood/a"]
    assert [packet[0] for packet in busy.wire.packets] == ["pong"] * 10_000 + ["ack"]


def test_slices() -> None:
    told: list[Any] = []
    slices = BatchSlices([1, 2, 3, 4, 5], 5, told.append)
    parts = [slices.take(2) for _ in range(3)]
    assert [(some, first) for some, first, _ in parts] == [([1, 2], 5), ([3, 4], 7), ([5], 9)]
    assert slices.left == 0
    for (some, _, done), outcomes in zip(parts[::-1], ([50], [30, 40], [10, 20]), strict=True):
        assert not told
        assert len(some) == len(outcomes)
        done(outcomes)
    assert told == [[10, 20, 30, 40, 50]]
    unnumbered = BatchSlices([1, 2], 0, told.append)
    assert [unnumbered.take(1)[1] for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("taken", "before", "after"),
    [
        ((100, 0.001), 100, 100),
        ((100, 0.0005), 100, 200),
        ((100, 0.0001), 100, 200),
        ((2000, 0.0), 2000, SLICE_ROWS_MAX),
        ((500, 0.1), 500, SLICE_ROWS_MIN),
    ],
)
def test_as_many_rows_as_a_turn_has_time_for(taken: tuple[int, float], before: int, after: int) -> None:
    assert next_slice(*taken, before) == after
