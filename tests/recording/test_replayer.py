"""The replay itself: order, times, speeds, passes, choices, on an outlet that only takes note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.recording.lateness import Lateness
from fastpath.recording.lines import Recorded
from fastpath.recording.replayer import BATCH_MESSAGES, Choice, Moment, Replay, messages_of
from tests.support.recording.notes import Notes
from tests.support.recording.samples import BEGAN_US, message, write


def _play(lines: list[Recorded], speed: float, **options: Any) -> tuple[Notes, Replay]:
    notes = Notes(options.pop("busy", 0))
    replay = Replay(notes, speed, **options)
    replay.run(lambda: lines, lambda: None)
    return notes, replay


@pytest.mark.parametrize(("speed", "seconds"), [(1, 0.12), (4, 0.03), (0.5, 0.24)])
def test_messages_come_when_they_are_due(speed: float, seconds: float) -> None:
    """None before its time, at any speed."""
    lines = [message(ms, f"/a/{ms}") for ms in (0, 40, 40, 80, 120)]

    notes, replay = _play(lines, speed)

    assert notes.subjects == ["/a/0", "/a/40", "/a/40", "/a/80", "/a/120"]
    due = [0, seconds / 3, seconds / 3, seconds * 2 / 3, seconds]
    assert all(at >= wanted for at, wanted in zip(notes.times, due, strict=True))
    assert replay.lateness.count == 5
    assert notes.finished == 1


def test_as_fast_as_it_goes_takes_no_notice_of_time() -> None:
    """In batches that a publisher takes at once."""
    notes, replay = _play([message(ms * 1000) for ms in range(1200)], 0)

    assert [len(batch) for _, batch in notes.batches] == [BATCH_MESSAGES, BATCH_MESSAGES, 200]
    assert notes.times[-1] < 5
    assert replay.lateness.count == 0


def test_what_is_late_is_caught_up_with() -> None:
    """Together, and later messages are at their time again."""
    lines = [message(ms) for ms in range(0, 200, 10)]

    notes, replay = _play(lines, 1, busy=0.05)

    assert len(notes.batches) < 12
    assert replay.lateness.max_ms >= 40


def test_passes_are_a_second_apart() -> None:
    """In the recording's time; messages are as they were in each pass."""
    notes, replay = _play([message(0, "/a/1"), message(200, "/a/2")], 20, loops=3)

    assert notes.subjects == ["/a/1", "/a/2"] * 3
    assert replay.pass_number == 3
    assert notes.times[2] >= 0.06 and notes.times[4] >= 0.12


def test_nothing_is_not_played_for_ever() -> None:
    """A recording without a message ends."""
    notes, replay = _play([], 1, loops=0)

    assert (notes.sent, replay.pass_number) == (0, 1)


def test_a_long_pause_is_used_to_hear_what_came_of_it() -> None:
    """So that acknowledgements are known before the next message is due."""
    notes = Notes()
    replay = Replay(notes, 10)
    seen: list[int] = []

    def ticked() -> None:
        seen.append(notes.acknowledged)
        if notes.acknowledged:
            replay.stop()

    replay.run(lambda: [message(0), message(100_000)], ticked)

    assert notes.sent == 1, "the next message was due much later"
    assert seen[-1] == 1


def test_told_to_stop_it_sends_nothing_more() -> None:
    """What was sent is still answered."""
    notes = Notes()
    replay = Replay(notes, 1)
    replay.run(lambda: [message(0), message(60_000)], replay.stop)

    assert notes.sent <= 1
    assert notes.finished


def test_a_pipe_with_nothing_in_it_holds_nothing_back(tmp_path: Path) -> None:
    """What has come is sent before more is waited for."""
    notes = Notes()
    replay = Replay(notes, 0)

    def source() -> Any:
        yield message(0)
        assert replay.idle()
        assert notes.sent == 1, "the next message was due much later"
        assert notes.waited
        replay.stop()
        assert not replay.idle()

    replay.run(source, lambda: None)
    assert notes.sent == 1, "the next message was due much later"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(), ["/a/1", "/a/2", "/b/3", "/b/4"]),
        (Choice(prefix="/replay"), ["/replay/a/1", "/replay/a/2", "/replay/b/3", "/replay/b/4"]),
        (Choice(names=("/b/*",)), ["/b/3", "/b/4"]),
        (Choice(names=("/a/2", "/b/4")), ["/a/2", "/b/4"]),
        (Choice(start=Moment(2_000_000, True)), ["/b/3", "/b/4"]),
        (Choice(start=Moment(BEGAN_US + 1_000_000, False), end=Moment(3_000_000, True)), ["/a/2", "/b/3"]),
        (Choice(end=Moment(1, True)), ["/a/1"]),
        (Choice(snapshots=False), ["/a/2", "/b/3", "/b/4"]),
    ],
)
def test_what_is_chosen(tmp_path: Path, choice: Choice, expected: list[str]) -> None:
    """By subject, by time, with or without what was there before."""
    lines = [message(0, "/a/1", kind="snapshot"), message(1000, "/a/2"), message(2000, "/b/3"), message(3000, "/b/4")]
    path = write(tmp_path / "a.jsonl", lines)

    assert [line.subject for line in messages_of([str(path)], choice)] == expected


def test_files_are_played_after_one_another_and_a_cut_one_is_told(tmp_path: Path) -> None:
    """Times count from the beginning of the first."""
    first = write(tmp_path / "1.jsonl", [message(0, "/a/1"), message(1, "/a/2")], end=False)
    first.write_bytes(first.read_bytes()[:-5])
    second = write(tmp_path / "2.jsonl", [message(2000, "/a/3")])
    cut: list[str] = []

    found = messages_of([str(first), str(second)], Choice(end=Moment(1_500_000, True)), cut.append)
    assert [line.subject for line in found] == ["/a/1"]
    assert cut == [str(first)]


@pytest.mark.parametrize("given", [{"prefix": "replay"}, {"prefix": "/replay/"}, {"names": ("/a",)}])
def test_what_is_no_subject_is_refused_before_it_begins(given: dict[str, Any]) -> None:
    """A wrong prefix would make every message invalid."""
    with pytest.raises(InvalidSubject):
        Choice(**given)


def test_lateness_counts_to_a_tenth_of_a_millisecond() -> None:
    """Percentiles of a hundred values; what is beyond the table counts in the maximum."""
    late = Lateness()
    assert late.percentile_ms(99) == 0
    for number in range(100):
        late.add(number / 1000 + 0.00005)

    assert late.percentile_ms(50) == pytest.approx(49.1, abs=0.11)
    assert late.percentile_ms(99) == pytest.approx(98.1, abs=0.11)
    late.add(30, 10)
    assert late.max_ms == 30_000
    assert late.percentile_ms(95) == pytest.approx(2000, abs=1)
