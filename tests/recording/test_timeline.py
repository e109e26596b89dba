"""When messages are due: by the server's clock, by arrival, and where the server's clock was set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.recording.lines import Recorded
from fastpath.recording.timeline import Timeline
from tests.support.recording.samples import BEGAN_US, message

SERVER_MS = BEGAN_US // 1000 + 3_600_000
"""The server's clock is an hour ahead of the recorder's."""


def _one(arrived_ms: float, published_ms: int, kind: str = "update") -> Recorded:
    return message(arrived_ms, time=SERVER_MS + published_ms, kind=kind)


def _places(messages: list[Recorded], **options: object) -> list[float]:
    timeline = Timeline(**options)  # type: ignore[arg-type]
    return [timeline.place(one) / 1000 for one in messages]


@pytest.mark.parametrize(
    ("story", "messages", "by_time", "by_arrival"),
    [
        (
            "jitter of the network is none of the server's",
            [(0, 0), (130, 100), (205, 200)],
            [0, 100, 200],
            [0, 130, 205],
        ),
        (
            "what was missed and recovered stands where it was published",
            [(0, 0), (5000, 1000, "recovered"), (5000, 2000, "recovered"), (5001, 5000)],
            [0, 1000, 2000, 5000],
            [0, 5000, 5000, 5001],
        ),
        (
            "a client that was slow got late what was published in time",
            [(0, 0), (3000, 100), (3001, 200), (3100, 3090)],
            [0, 100, 200, 3090],
            [0, 3000, 3001, 3100],
        ),
        (
            "the snapshot's own time lies before the recording",
            [(0, -900_000, "snapshot"), (2, -5, "snapshot"), (40, 30), (140, 130)],
            [0, 2, 40, 140],
            [0, 2, 40, 140],
        ),
        (
            "history comes at once",
            [(0, -9000, "historical"), (0, -5000, "historical"), (100, 95)],
            [0, 0, 100],
            [0, 0, 100],
        ),
        (
            "order stays, also where another node's clock is behind",
            [(0, 0), (1, -400), (20, 20)],
            [0, 0, 20],
            [0, 1, 20],
        ),
        (
            "the server's clock is set back an hour",
            [(0, 0), (100, 100), (200, -3_599_800), (300, -3_599_700)],
            [0, 100, 200, 300],
            [0, 100, 200, 300],
        ),
        (
            "the server's clock is set forward an hour",
            [(0, 0), (100, 100), (200, 3_600_200), (300, 3_600_300)],
            [0, 100, 200, 300],
            [0, 100, 200, 300],
        ),
    ],
)
def test_stories(story: str, messages: list[tuple[float, int]], by_time: list[float], by_arrival: list[float]) -> None:
    """Both ways, for the same messages."""
    lines = [_one(*one) for one in messages]
    assert _places(lines) == by_time, story
    assert _places(lines, by="arrival") == by_arrival, story


@pytest.mark.parametrize("by", ["time", "arrival"])
def test_silences_are_cut(by: str) -> None:
    """Only those that are longer; the rest stays as it was."""
    lines = [_one(ms, ms) for ms in (0, 400, 1200, 1300, 60_400, 60_500, 90_000)]
    assert _places(lines, by=by, pause_us_max=500_000) == [0, 400, 900, 1000, 1500, 1600, 2100]


@pytest.mark.parametrize("by", ["time", "arrival"])
def test_a_recording_from_before_goes_on_at_once(by: str) -> None:
    """Files may be given in any order."""
    lines = [_one(ms, ms) for ms in (600_000, 600_100, 0, 70)]
    assert _places(lines, by=by) == [0, 100, 100, 170]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from(["update", "snapshot"]))))
def test_time_never_runs_backwards(steps: list[tuple[int, int, str]]) -> None:
    """Whatever the clocks say."""
    places = _places([_one(*step) for step in steps])
    assert places == sorted(places)
    assert not places or places[0] == 0
