"""The checker itself: what is planted is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.exactly_once.check import Verdict, check_bars, check_rows

BATCHES, ROWS, SUBJECTS = 3, 8, 2
Stored = dict[str, list[tuple[int, int]]]


def stored() -> Stored:
    """Three batches of eight rows over two subjects, each batch in another order."""
    found: Stored = {}
    for batch in range(BATCHES):
        for row in sorted(range(batch * ROWS, batch * ROWS + ROWS), key=lambda row: row * 7 % 5):
            messages = found.setdefault(f"/checked/{row % SUBJECTS}", [])
            messages.append((len(messages) + 1, row))
    return found


def lose(found: Stored) -> None:
    messages = found["/checked/0"]
    del messages[5]
    messages[5:] = [(seq - 1, row) for seq, row in messages[5:]]


def double(found: Stored) -> None:
    found["/checked/1"].append((13, found["/checked/1"][-1][1]))


def swap(found: Stored) -> None:
    messages = found["/checked/1"]
    messages[0], messages[-1] = (1, messages[-1][1]), (12, messages[0][1])


def leave_out(found: Stored) -> None:
    found["/checked/0"][-1] = (99, found["/checked/0"][-1][1])


def mistake(found: Stored) -> None:
    found["/checked/0"][0], found["/checked/1"][0] = found["/checked/1"][0], found["/checked/0"][0]


@pytest.mark.parametrize(
    ("plant", "name"),
    [(lose, "lost"), (double, "doubled"), (swap, "reordered"), (leave_out, "holes"), (mistake, "differing")],
)
def test_each_fault_is_found(plant: Callable[[Stored], None], name: str) -> None:
    found = stored()
    assert check_rows(found, BATCHES, ROWS, SUBJECTS) == Verdict(rows=BATCHES * ROWS)
    plant(found)
    verdict = check_rows(found, BATCHES, ROWS, SUBJECTS)
    assert getattr(verdict, name) > 0
    assert not verdict.good
    assert verdict.examples


def test_what_comes_after_the_last_batch_may_be_there_but_once() -> None:
    found = stored()
    assert check_rows(found, BATCHES - 1, ROWS, SUBJECTS).good
    assert not check_rows(found, BATCHES + 1, ROWS, SUBJECTS).good


def test_bars() -> None:
    first: dict[str, Any] = {"start": "0", "end": "1000", "high": "2"}
    second: dict[str, Any] = {"start": "1000", "end": "2000", "high": "3"}
    recomputed = {("/bars/A", "0"): ("1", first), ("/bars/A", "1000"): ("2", second)}
    both = [("/bars/A", "1", first), ("/bars/A", "2", second)]
    assert check_bars(both, recomputed, 2000).good
    assert check_bars(both[:1], recomputed, 2000).good  # the second is not due before its end has passed
    assert check_bars(both[:1], recomputed, 2001).lost == 1
    assert check_bars([*both, both[0]], recomputed, 2000).doubled == 1
    assert check_bars([("/bars/A", "1", first | {"high": "2.0"})], recomputed, 0).differing == 1
    assert check_bars([("/bars/B", "1", first)], recomputed, 0).differing == 1
