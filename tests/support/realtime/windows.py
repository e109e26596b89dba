"""Windows of the statistics against a straightforward computation."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import fmean, pstdev

import pytest
from hypothesis import strategies as st

from realtime.stats.windows import DAY, HOUR, MINUTE, WINDOWS, History

NAMES = ("connections", "bytes_in_per_s")
Samples = list[tuple[int, dict[str, float]]]


def months_before(moment: int, months: int) -> int:
    """The beginning of the same day so many months before, found by trying."""
    today = datetime.fromtimestamp(moment, UTC)
    month = today.year * 12 + today.month - 1 - months
    for day in range(today.day, 0, -1):
        try:
            return int(datetime(month // 12, month % 12 + 1, day, tzinfo=UTC).timestamp())
        except ValueError:
            continue
    raise AssertionError


def first_second(window: str, moment: int) -> int:
    """Where a window that ends at a moment begins: as docs/operate/figures.md says it."""
    number, unit = int(window.rstrip("minohd")), window.lstrip("0123456789")
    match unit:
        case "min":
            return moment - 60 * number
        case "h":
            return moment // MINUTE * MINUTE - HOUR * number
        case "d":
            return moment // HOUR * HOUR - DAY * number
    return months_before(moment, number)


def check(history: History, samples: Samples, moment: int, names: tuple[str, ...] = NAMES) -> None:
    """Every window of every name is what its samples say."""
    found = history.windows(moment, names)
    for window in WINDOWS:
        first = first_second(window, moment)
        for name in names:
            values = [sample[name] for second, sample in samples if second >= first and name in sample]
            told = found[name][window]
            if not values:
                assert told == {"maximum": None, "average": None, "deviation": None}
                continue
            scale = max(map(abs, values)) + 1
            assert told["maximum"] == pytest.approx(max(values), abs=1e-6)
            assert told["average"] == pytest.approx(fmean(values), abs=1e-6 + 1e-12 * scale)
            assert told["deviation"] == pytest.approx(pstdev(values), abs=1e-6 + 1e-9 * scale)


values = st.one_of(st.integers(0, 10), st.floats(0, 1e9), st.just(1e9 + 0.5))
