"""Senders of several workers and nodes as one list: nothing is left out before it is added up, nor what is stuck."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.core.telemetry.senders import shown, together


def row(name: str, rate: float = 0.0, **more: Any) -> dict[str, Any]:
    """What one worker tells."""
    known = {"user": "load", "kind": "publisher", "name": name, "messages": 1, "messages_per_s": rate, "last_ms": 5}
    return (
        known
        | {"unacknowledged": 0, "oldest_ms": 0, "uncommitted": 0, "uncommitted_bytes": 0, "uncommitted_ms": 0}
        | more
    )


def stuck(name: str, since: int) -> dict[str, Any]:
    return row(name, kind="transaction", uncommitted=2000, uncommitted_ms=since)


def test_sums_and_what_is_none() -> None:
    here = row("a", 2.5, last_ms=7, unacknowledged=3, oldest_ms=40)
    there = row("a", 1.0, last_ms=9, unacknowledged=1, oldest_ms=9)
    other = row("a", user="somebody else")
    assert together([here, other, there]) == [
        row("a", 3.5, messages=2, last_ms=9, unacknowledged=4, oldest_ms=40),
        other,
    ]
    assert here == row("a", 2.5, last_ms=7, unacknowledged=3, oldest_ms=40), "what was told is not changed"


@pytest.mark.parametrize("busy", [0, 14, 15, 16, 1000])
@pytest.mark.parametrize("waits", [stuck("nightly", 4000), row("nightly", unacknowledged=3, oldest_ms=4000)])
def test_what_is_stuck_is_seen_however_many_are_busy(busy: int, waits: dict[str, Any]) -> None:
    rows = [*(row(f"busy {number}", 10.0 + number) for number in range(busy)), waits]
    found = [one["name"] for one in shown(rows, 15)]
    assert "nightly" in found
    assert len(found) == min(15, busy + 1)
    assert busy < 15 or f"busy {busy - 1}" in found


def test_the_busiest_are_seen_however_many_are_stuck() -> None:
    rows = [*(stuck(f"stuck {number}", 1 + number) for number in range(50)), row("busy", 1.0), row("quiet")]
    found = [one["name"] for one in shown(rows, 15)]
    assert found[0] == "busy"
    assert {f"stuck {number}" for number in range(43, 50)} <= set(found)


def test_the_order() -> None:
    rows = [row("quiet", last_ms=6), row("old", last_ms=1), stuck("waits", 9), row("busy", 1.0), row("busier", 2.0)]
    assert [one["name"] for one in shown(rows, 15)] == ["busier", "busy", "waits", "quiet", "old"]


def test_equals_are_in_the_order_of_their_names() -> None:
    """However they are told, and where only some of them are shown; of those of whom something waits as well."""
    names = ["a", "b", "c", "d"]
    for told in permutations(names):
        for rows in ([row(name, 1.0) for name in told], [stuck(name, 9) for name in told]):
            assert [one["name"] for one in shown(rows, 15)] == names
            assert [one["name"] for one in shown(rows, 3)] == names[:3]


PARTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 99)), max_size=120)


@given(PARTS)
def test_wherever_the_parts_are_told_the_list_is_the_same(parts: list[tuple[int, int, int]]) -> None:
    """Added up over workers and then over nodes, or at once."""
    rows = [(place, row(f"s{name}", float(rate), oldest_ms=rate % 7)) for name, place, rate in parts]
    nodes = [together(one for place, one in rows if place // 2 == node) for node in range(2)]
    found = shown(together(one for node in nodes for one in node), 15)
    at_once = shown(together(one for _, one in rows), 15)
    assert found == at_once
