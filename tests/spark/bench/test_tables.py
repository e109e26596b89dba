"""What a measurement prints and writes: medians, their spread, and whether the target is met."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark.bench.tables import Figure, shown, table, write


@pytest.mark.parametrize(
    ("value", "text"), [(0.01234, "0.0123"), (9.876, "9.88"), (123.4, "123"), (1000, "1,000"), (1234567.8, "1,234,568")]
)
def test_three_digits_count(value: float, text: str) -> None:
    assert shown(value) == text


def test_a_target_is_held_against_the_median() -> None:
    rate = Figure("rows", "rows/s", [90.0, 300.0, 110.0], target=100)
    assert (rate.median, rate.met) == (110, True)
    wait = Figure("wait", "ms", [9.0, 30.0, 11.0], target=10, least=False)
    assert (wait.median, wait.met) == (11, False)
    assert Figure("rows", "rows/s", [1.0]).met is None


def test_the_table_and_the_file(tmp_path: Path) -> None:
    figures = [
        Figure("rows", "rows/s", [2000.0, 1000.0], target=1600, note="exactly once"),
        Figure("wait", "ms", [5.0], target=10, least=False),
        Figure("bytes", "B", [7.0]),
    ]
    assert table(figures).split("\n")[2:] == [
        "| rows | 1,500 rows/s | 1,000 – 2,000 | ≥ 1,600 | **no** | exactly once |",
        "| wait | 5 ms |  | ≤ 10 | yes |  |",
        "| bytes | 7 B |  |  |  |  |",
    ]
    write(figures, tmp_path / "found.json", {"revision": "abc"})
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["machine"] == {"revision": "abc"}
    assert [(one["name"], one["median"], one["met"]) for one in found["figures"]] == [
        ("rows", 1500, False),
        ("wait", 5, True),
        ("bytes", 7, None),
    ]
