"""Offsets against a model: nothing is left out, nothing read twice, and nobody is starved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.publisher.reading import Head, Range
from spark.source.positions import EARLIEST, Offset, advance, begin, is_behind, ranges, shares

EPOCH = 7
NAMES = st.sampled_from(["/a/1", "/a/2", "/b/1", "/b/2/c", "/é/x"])
SIZES = st.dictionaries(NAMES, st.integers(0, 40), max_size=5)


def heads(sizes: dict[str, int], first: int = 1) -> dict[str, Head]:
    """Subjects with so many messages."""
    return {subject: Head(EPOCH, size, first) for subject, size in sizes.items()}


def rows(found: list[Range]) -> dict[str, list[int]]:
    """The numbers that are read of each subject."""
    return {one.subject: list(range((one.after or (0, 0))[1] + 1, (one.upto or (0, 0))[1] + 1)) for one in found}


@given(st.lists(SIZES, min_size=1, max_size=6), st.one_of(st.none(), st.integers(1, 30)), st.booleans())
def test_batches_read_every_message_once(grown: list[dict[str, int]], rows_max: int | None, earliest: bool) -> None:
    total: dict[str, int] = {}
    read: dict[str, list[int]] = {}
    offset = begin("earliest" if earliest else "latest", heads(grown[0]))
    skipped = {} if earliest else grown[0]
    after = ""
    for more in [grown[0] if earliest else {}, *grown[1:]]:
        for subject, count in more.items():
            total[subject] = total.get(subject, 0 if earliest else skipped.get(subject, 0)) + count
        known = heads(total)
        for _ in range(1000):
            end = advance(offset, known, rows_max, after)
            if end == offset:
                break
            found = rows(ranges(offset, end))
            assert rows_max is None or sum(map(len, found.values())) <= max(rows_max, 1)
            assert found == rows(ranges(offset, end))  # the same when it is run again
            for subject, numbers in found.items():
                read.setdefault(subject, []).extend(numbers)
            after = max(subject for subject in end if end[subject] != offset.get(subject))
            offset = end
        assert not any(is_behind(offset.get(subject), head) for subject, head in known.items())
    wanted = {subject: list(range(skipped.get(subject, 0) + 1, count + 1)) for subject, count in total.items()}
    assert {subject: numbers for subject, numbers in read.items() if numbers} == {
        subject: numbers for subject, numbers in wanted.items() if numbers
    }


def test_a_busy_subject_leaves_room_for_the_others() -> None:
    known = heads({"/busy/1": 10_000, "/busy/2": 10_000, "/small/1": 5, "/small/2": 1})
    start: Offset = dict.fromkeys(known, (EPOCH, 0))
    end = advance(start, known, 100)
    assert {subject: place[1] for subject, place in end.items()} == {
        "/busy/1": 47, "/busy/2": 47, "/small/1": 5, "/small/2": 1}  # fmt: skip


def test_more_subjects_than_messages_take_turns() -> None:
    known = heads({f"/a/{number}": 3 for number in range(10)})
    offset: Offset = dict.fromkeys(known, (EPOCH, 0))
    after, turns = "", []
    for _ in range(5):
        end = advance(offset, known, 2, after)
        moved = sorted(subject for subject in end if end[subject] != offset[subject])
        turns += moved
        after, offset = max(moved), end
    assert turns == sorted(known)


def test_where_a_query_begins() -> None:
    known = {"/a/1": Head(EPOCH, 9, 3, (EPOCH, 5)), "/a/2": Head(EPOCH, 4, 1, None)}
    assert begin("earliest", known) == {"/a/1": EARLIEST, "/a/2": EARLIEST}
    assert begin("latest", known) == {"/a/1": (EPOCH, 9), "/a/2": (EPOCH, 4)}
    assert begin("time", known) == {"/a/1": (EPOCH, 5), "/a/2": EARLIEST}
    assert begin({"/a/2": [EPOCH, 2], "/gone/x": [EPOCH, 1]}, known) == {
        "/a/1": EARLIEST, "/a/2": [EPOCH, 2], "/gone/x": [EPOCH, 1]}  # fmt: skip


def test_what_is_read() -> None:
    start = {"/a/1": EARLIEST, "/a/2": [EPOCH, 2], "/a/3": [EPOCH, 5], "/old/x": [EPOCH, 1]}
    end = {"/a/1": [EPOCH, 4], "/a/2": [EPOCH, 2], "/a/3": [EPOCH + 1, 7], "/new/x": [EPOCH, 3], "/old/x": [EPOCH, 1]}
    assert ranges(start, end) == [
        Range("/a/1", None, (EPOCH, 4)),
        Range("/a/3", (EPOCH, 5), (EPOCH + 1, 7)),
        Range("/new/x", (EPOCH, 0), (EPOCH, 3)),
    ]


def test_what_an_epoch_numbers_again_is_taken_whole() -> None:
    # It stands at 8 again after 12 were read: no message of the new epoch may be read in two batches.
    assert advance({"/a/1": (1, 12)}, {"/a/1": Head(2, 8, 3)}, 1) == {"/a/1": (2, 8)}
    assert advance({"/a/1": (1, 12)}, {"/a/1": Head(2, 20, 3)}, 1) == {"/a/1": (2, 13)}
    # A node that is behind the one that was asked before has nothing yet.
    assert advance({"/a/1": (2, 12)}, {"/a/1": Head(2, 8, 3)}) == {"/a/1": (2, 12)}
    assert advance({"/a/1": (2, 12)}, {"/a/1": Head(1, 80, 3)}) == {"/a/1": (2, 12)}


@given(SIZES, st.integers(1, 8), st.integers(1, 30))
def test_shares_are_the_ranges_and_no_subject_is_in_two(sizes: dict[str, int], tasks: int, rows_min: int) -> None:
    known = heads(sizes)
    found = ranges({}, advance({}, known))
    parts = shares(found, known, tasks, rows_min)
    assert sorted(one for part in parts for one in part.ranges) == found
    assert len(parts) <= tasks
    assert all(part.ranges == sorted(part.ranges) for part in parts)
    assert sum(part.rows for part in parts) == sum(sizes.values())


def test_offsets_of_many_subjects() -> None:
    known = heads({f"/many/{number:06}": 2 for number in range(100_000)})
    offset = advance(begin("earliest", known), known, 50_000)
    assert sum(place != EARLIEST for place in offset.values()) == 50_000
    assert len(shares(ranges(begin("earliest", known), offset), known, 2)) == 2
