"""The place up to which a batch's rows are settled: numbers, refused rows, and a release that begins again."""

from __future__ import annotations

import pytest

from fastpath.core.broker.column_batches import RunOutcome
from fastpath.core.protocol.columns import ColumnBatch
from fastpath.core.transactions.records import BEGUN, DONE, Chunk, StagingRecord
from fastpath.core.transactions.release import PATIENCE_SECONDS, REFUSED_MAX, Patience, ReleaseCursor, publisher_of

FULL: RunOutcome = ("failed", "the disk is full")
NO: RunOutcome = ("too_large", "no")


def record(rows: int) -> StagingRecord:
    """The second batch of a transaction, whose first one had 10 rows."""
    return StagingRecord(1, [(0, 1, rows)], 10, rows, BEGUN, [], 0, 0, 70, 7)


def chunk(*runs: ColumnBatch, refused: tuple[int, ...] = ()) -> tuple[Chunk, list[ColumnBatch]]:
    """What one frame has brought; ``refused`` are places of rows that were refused when it was staged."""
    return Chunk(sum(map(len, runs)), [(place, "denied", "no") for place in refused], b""), list(runs)


def run(subject: str, *contents: str) -> ColumnBatch:
    return ColumnBatch(subject, list(contents))


def texts(piece: list[ColumnBatch]) -> list[object]:
    return [content for one in piece for content in one.contents]


def test_rows_are_numbered_from_the_base_on_and_come_in_pieces() -> None:
    cursor = ReleaseCursor(record(5))
    cursor.next_partition(0)
    cursor.next_chunk(*chunk(run("/a", "1", "2", "3"), run("/b", "4", "5")))
    found = []
    while piece := cursor.piece(2):
        found.append((cursor.first, texts(piece)))
        assert cursor.settle(piece, [1] * len(piece)) == []
    assert found == [(11, ["1", "2"]), (13, ["3", "4"]), (15, ["5"])]
    assert cursor.rows == 5
    done = cursor.done(80)
    assert (done.state, done.time, done.refused, done.refused_rows, done.outdated) == (DONE, 80, [], 0, 0)


@pytest.mark.parametrize(
    ("outcomes", "again"),
    [
        ([1, 1, 1], []),
        ([1, FULL, FULL], ["2", "3"]),
        ([FULL, 1, FULL], ["3"]),
        ([NO, FULL, NO], ["2", "3"]),
        ([FULL, FULL, 1], []),
        ([0, FULL, FULL], ["2", "3"]),
    ],
    ids=["all", "the end", "behind what is stored", "refused before and behind", "the last is stored", "nothing new"],
)
def test_what_cannot_be_stored_now_comes_again_from_where_nothing_behind_it_is_stored(
    outcomes: list[RunOutcome], again: list[str]
) -> None:
    cursor = ReleaseCursor(record(3))
    cursor.next_partition(0)
    cursor.next_chunk(*chunk(run("/a", "1"), run("/b", "2"), run("/c", "3")))
    rest = cursor.settle(cursor.piece(10), outcomes)
    assert texts(rest) == again
    assert cursor.rows == 3 - len(again)


def test_refused_rows_are_told_by_their_place_in_what_was_staged() -> None:
    """Rows that were refused when they were staged count; a partition begins anew."""
    cursor = ReleaseCursor(record(6))
    cursor.next_partition(0)
    cursor.next_chunk(*chunk(run("/a", "1", "2"), refused=(0,)))
    cursor.settle(cursor.piece(10), [NO])
    cursor.next_chunk(*chunk(run("/a", "3"), run("/b", "4"), refused=(1,)))
    cursor.settle(cursor.piece(10), [1, NO])
    cursor.next_partition(3)
    cursor.next_chunk(*chunk(run("/c", "5"), run("/d", "6")))
    cursor.settle(cursor.piece(10), [NO, ("outdated", "older")])
    done = cursor.done(80)
    assert [(partition, row, subject) for partition, row, subject, _, _ in done.refused] == [
        (0, 1, "/a"),
        (0, 2, "/a"),
        (0, 5, "/b"),
        (3, 0, "/c"),
    ]
    assert (done.refused_rows, done.outdated) == (4, 1)


def test_so_many_refused_rows_are_told_one_by_one() -> None:
    cursor = ReleaseCursor(record(REFUSED_MAX + 50))
    cursor.next_partition(0)
    cursor.next_chunk(*chunk(run("/a", *map(str, range(REFUSED_MAX + 50)))))
    cursor.settle(cursor.piece(1000), [NO])
    done = cursor.done(80)
    assert (len(done.refused), done.refused_rows) == (REFUSED_MAX, REFUSED_MAX + 50)


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_release_that_begins_again_goes_on_where_the_one_before_was(size: int) -> None:
    """Over several chunks, and twice: the second try ends before it comes to where the first one was."""
    batch = record(4)
    chunks = [chunk(run("/a", "1"), run("/b", "2")), chunk(run("/c", "3"), run("/d", "4"))]
    before = ReleaseCursor(batch)
    before.next_partition(0)
    before.next_chunk(*chunks[0])
    before.settle(before.piece(10), [NO, 1])
    before.next_chunk(*chunks[1])
    before.settle(before.piece(10), [NO, FULL])
    early = ReleaseCursor(batch, before)
    early.next_partition(0)
    cursor = ReleaseCursor(batch, early)
    cursor.next_partition(0)
    published = []
    for one in chunks:
        cursor.next_chunk(*one)
        while piece := cursor.piece(size):
            published.append((cursor.first, texts(piece)))
            cursor.settle(piece, [1] * len(piece))
    assert published == [(14, ["4"])]
    done = cursor.done(80)
    assert ([row for _, row, *_ in done.refused], done.refused_rows) == ([0, 2], 2)


def test_what_is_known_of_another_batch_does_not_count() -> None:
    before = ReleaseCursor(record(1))
    before.next_partition(0)
    before.next_chunk(*chunk(run("/a", "1")))
    before.settle(before.piece(1), [NO])
    cursor = ReleaseCursor(record(2), before)
    assert (cursor.rows, cursor.done(80).refused_rows) == (0, 0)


def test_pauses_double_up_to_a_second_and_end() -> None:
    patience, pauses = Patience(), []
    while (pause := patience.wait()) is not None:
        pauses.append(pause)
    assert pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert max(pauses) == 1.0
    assert PATIENCE_SECONDS <= sum(pauses) <= PATIENCE_SECONDS + 1


def test_a_transaction_that_was_forgotten_begins_with_new_numbers() -> None:
    assert publisher_of("feed#t", record(1)) == "feed#t#7"
