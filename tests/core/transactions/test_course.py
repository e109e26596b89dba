"""The course of a commit: every event in every state, and a model in which answers get lost and nodes race."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.protocol.packets import PUBLICATION_MAX
from fastpath.core.transactions.course import CommitCourse, Next, State, Step, first_record
from fastpath.core.transactions.records import BEGUN, DONE, StagingFailed, StagingRecord

BATCH = 5
Event = Callable[[CommitCourse], Next]


def record(batch: int, state: str, *, base: int = 10, rows: int = 3) -> StagingRecord:
    """Of a transaction that began at 7 ms."""
    return StagingRecord(batch, [(0, 1, rows)], base, rows, state, [], 0, 0, 70, 7)


EARLIER_DONE, EARLIER_BEGUN = record(4, DONE), record(4, BEGUN)
BEGUN_HERE, DONE_HERE = record(BATCH, BEGUN), record(BATCH, DONE)
LATER_DONE, LATER_BEGUN = record(6, DONE), record(6, BEGUN)

EVENTS: dict[str, Event] = {
    "nothing is known": lambda course: course.read(None),
    "an earlier one is done": lambda course: course.read(EARLIER_DONE),
    "an earlier one was begun": lambda course: course.read(EARLIER_BEGUN),
    "this one was begun": lambda course: course.read(BEGUN_HERE),
    "this one is done": lambda course: course.read(DONE_HERE),
    "a later one was begun": lambda course: course.read(LATER_BEGUN),
    "a later one is done": lambda course: course.read(LATER_DONE),
    "it came to nothing": lambda course: course.probed(nothing=True),
    "it is there": lambda course: course.probed(nothing=False),
    "ours counts": lambda course: course.begun(BEGUN_HERE),
    "another node has done it": lambda course: course.begun(DONE_HERE),
    "another node is further": lambda course: course.begun(LATER_BEGUN),
    "released": lambda course: course.released(DONE_HERE),
}

WAY: dict[State, list[str]] = {
    State.ASKED: [],
    State.FINISHING: ["an earlier one was begun"],
    State.PROBING: ["this one was begun"],
    State.BEGINNING: ["nothing is known"],
    State.RELEASING: ["nothing is known", "ours counts"],
    State.OVER: ["this one is done"],
}
"""How a course comes to be in a state."""

TABLE: dict[tuple[State, str], tuple[Step, StagingRecord | None, State]] = {
    (State.ASKED, "nothing is known"): (Step.BEGIN, None, State.BEGINNING),
    (State.ASKED, "an earlier one is done"): (Step.BEGIN, EARLIER_DONE, State.BEGINNING),
    (State.ASKED, "an earlier one was begun"): (Step.RELEASE, EARLIER_BEGUN, State.FINISHING),
    (State.ASKED, "this one was begun"): (Step.PROBE, BEGUN_HERE, State.PROBING),
    (State.ASKED, "this one is done"): (Step.REPEATED, DONE_HERE, State.OVER),
    (State.ASKED, "a later one was begun"): (Step.STALE, LATER_BEGUN, State.OVER),
    (State.ASKED, "a later one is done"): (Step.STALE, LATER_DONE, State.OVER),
    (State.FINISHING, "released"): (Step.BEGIN, DONE_HERE, State.BEGINNING),
    (State.PROBING, "it came to nothing"): (Step.BEGIN, msgspec.structs.replace(BEGUN_HERE, rows=0), State.BEGINNING),
    (State.PROBING, "it is there"): (Step.RELEASE, BEGUN_HERE, State.RELEASING),
    (State.BEGINNING, "ours counts"): (Step.RELEASE, BEGUN_HERE, State.RELEASING),
    (State.BEGINNING, "another node has done it"): (Step.REPEATED, DONE_HERE, State.OVER),
    (State.BEGINNING, "another node is further"): (Step.STALE, LATER_BEGUN, State.OVER),
    (State.RELEASING, "released"): (Step.DONE, DONE_HERE, State.OVER),
}


@pytest.mark.parametrize("state", State, ids=lambda state: state.name.lower())
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_in_every_state(state: State, event: str) -> None:
    course = CommitCourse(BATCH)
    for before in WAY[state]:
        EVENTS[before](course)
    assert course.state is state
    if (state, event) in TABLE:
        step, about, after = TABLE[state, event]
        assert EVENTS[event](course) == (step, about)
        assert course.state is after
    else:
        with pytest.raises(AssertionError):
            EVENTS[event](course)
        assert course.state is state


def test_the_first_batch_begins_at_row_one_and_the_next_behind_it() -> None:
    first = first_record(0, [(0, 1, 3), (2, 4, 5)], None, 100, once=False)
    assert (first.base, first.rows, first.since, first.state) == (0, 8, 100, BEGUN)
    second = first_record(1, [(0, 1, 2)], first, 200, once=False)
    assert (second.base, second.rows, second.since, second.time) == (8, 2, 100, 200)
    assert first_record(1, [], first, 200, once=True).since == 0


def test_the_numbers_of_a_transaction_end() -> None:
    before = record(0, DONE, base=PUBLICATION_MAX - 5, rows=3)
    assert first_record(1, [(0, 1, 2)], before, 1, once=False).base == PUBLICATION_MAX - 2
    with pytest.raises(StagingFailed, match="stale"):
        first_record(1, [(0, 1, 3)], before, 1, once=False)


class World:
    """One transaction's record, which nodes share, and what was stored: of each row, of which batch it is."""

    def __init__(self) -> None:
        self.record: StagingRecord | None = None
        self.stored: dict[int, int] = {}  # row → batch

    def begin(self, wanted: StagingRecord) -> StagingRecord:
        """StagingStore.begin: what another one has begun meanwhile counts, unless it is older and done."""
        known = self.record
        if known is None or (known.batch < wanted.batch and known.state == DONE):
            self.record = wanted
        return self.record or wanted

    def release(self, begun: StagingRecord, rows: int) -> None:
        """Store the first rows of a batch, those that are stored already not again."""
        for row in range(begun.base + 1, begun.base + 1 + rows):
            assert self.stored.setdefault(row, begun.batch) == begun.batch, "a row is stored once"

    def finish(self, begun: StagingRecord) -> StagingRecord:
        """All of a batch is stored."""
        self.release(begun, begun.rows)
        done = msgspec.structs.replace(begun, state=DONE)
        if self.record is not None and self.record.batch == begun.batch:
            self.record = done
        return done


def drive(world: World, batch: int, rows: int, data: st.DataObject) -> str:
    """One node commits the batch, and perhaps dies at any step; how it ended."""
    course = CommitCourse(batch)
    step, about = course.read(world.record)
    while True:
        if data.draw(st.integers(0, 4)) == 0:
            if step is Step.RELEASE and about is not None:
                world.release(about, data.draw(st.integers(0, about.rows)))
            return "died"
        if step is Step.BEGIN:
            step, about = course.begun(world.begin(first_record(batch, [(0, 1, rows)], about, 1, once=False)))
            continue
        assert about is not None
        if step is Step.RELEASE:
            step, about = course.released(world.finish(about))
        elif step is Step.PROBE:
            step, about = course.probed(nothing=False)
        else:
            return step.name


@given(st.data())
def test_whoever_dies_whenever_every_batch_is_stored_once_and_in_order(
    data: st.DataObject,
) -> None:
    world = World()
    sizes = [data.draw(st.integers(0, 4)) for _ in range(3)]
    for batch, rows in enumerate(sizes):
        for _ in range(40):
            if batch and data.draw(st.integers(0, 5)) == 0:
                # One that was asked for long ago, and whose answer was lost.
                assert drive(world, batch - 1, sizes[batch - 1], data) in ("died", "REPEATED", "STALE")
            if (ended := drive(world, batch, rows, data)) != "died":
                break
        else:
            return
        assert ended in ("DONE", "REPEATED")
    wanted = [batch for batch, rows in enumerate(sizes) for _ in range(rows)]
    assert [world.stored[row] for row in sorted(world.stored)] == wanted
