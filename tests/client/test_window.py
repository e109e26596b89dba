"""What a publisher has sent and what came of it, without I/O."""

from __future__ import annotations

from typing import Any

import pytest

from fastpath.client.window import REFUSED_KEPT_MAX, Window
from fastpath.core.errors import BadFrame
from fastpath.core.packets import Unpacker
from tests.vectors.build import packed


def submit(window: Window, *contents: str) -> None:
    window.submit(packed([["/a/b", content] for content in contents]), len(contents))


def taken(window: Window) -> list[tuple[int, list[str]]]:
    """The batches that may be sent now: their numbers and contents."""
    result = []
    while frame := window.take():
        [[_, number, rows]] = Unpacker(1 << 20).feed(frame)
        result.append((number, [content for _, content in rows]))
    return result


@pytest.fixture
def window() -> Window:
    """A window of two with three batches submitted."""
    window = Window(2)
    for contents in ("ab", "cd", "e"):
        submit(window, *contents)
    return window


def test_no_more_than_the_window_is_sent(window: Window) -> None:
    assert taken(window) == [(1, ["a", "b"]), (2, ["c", "d"])]
    assert not window.all_sent
    assert window.acknowledge(1, 9, [1, 2])
    assert taken(window) == [(3, ["e"])]
    assert window.all_sent and not window.idle
    window.acknowledge(2, 9, [3, 4])
    window.acknowledge(3, 9, [5])
    assert window.idle
    results = window.collect()
    assert (results.messages, results.accepted, results.refused, results.epoch) == (5, 5, [], 9)
    assert window.collect().messages == 0


def test_after_a_lost_connection_all_that_is_not_acknowledged_is_sent_again_in_order(window: Window) -> None:
    taken(window)
    window.acknowledge(1, 9, [1, 2])
    window.rewind(size=5)
    assert taken(window) == [(1, ["c", "d"]), (2, ["e"])]


def test_refusals_name_the_place_since_the_last_flush(window: Window) -> None:
    taken(window)
    window.acknowledge(1, 9, [1, ["denied", "no rule"]])
    window.acknowledge(2, 9, [["too_large", "big"], 0])
    results = window.collect()
    assert [(refusal.index, refusal.code, refusal.reason) for refusal in results.refused] == [
        (1, "denied", "no rule"), (2, "too_large", "big")]  # fmt: skip
    assert (results.accepted, results.refused_count) == (2, 2)


def test_what_is_not_ready_is_held_until_the_wire_is_empty_and_goes_first(window: Window) -> None:
    taken(window)
    assert window.acknowledge(1, 9, [1, ["not_ready", "wait"]])
    assert window.take() is None and not window.holds
    assert not window.acknowledge(2, 9, [["not_ready", "wait"], ["not_ready", "wait"]])
    assert window.holds and window.take() is None
    window.release()
    assert taken(window) == [(3, ["b"]), (4, ["c", "d"])]
    window.acknowledge(3, 9, [["denied", "after all"]])
    assert [refusal.index for refusal in window.results.refused] == [1]


def test_a_connection_lost_while_rows_are_held(window: Window) -> None:
    taken(window)
    window.acknowledge(1, 9, [1, ["not_ready", "wait"]])
    window.rewind()
    assert taken(window) == [(1, ["b"]), (2, ["c", "d"])]


def test_a_batch_that_someone_waits_for_stays_out_of_the_totals(window: Window) -> None:
    window.rewind(size=9)
    batch = window.submit(packed([["/a/b", "x"]]), 1, alone=True)
    other = window.submit(packed([["/a/b", "y"]]), 1, alone=True)
    taken(window)
    for number, results in ((1, [1, 2]), (2, [3, 4]), (3, [5])):
        window.acknowledge(number, 9, results)
    window.acknowledge(4, 9, [6])
    window.acknowledge(5, 9, [["denied", "no"]])
    assert (batch.done, batch.seq, batch.refused) == (True, 6, None)
    assert other.refused is not None and other.refused.code == "denied"
    assert window.collect().messages == 5


@pytest.mark.parametrize(("number", "results"), [(2, [1, 2]), (1, [1]), (1, [1, 2, 3]), (0, [])])
def test_an_acknowledgement_that_fits_no_batch(window: Window, number: int, results: list[Any]) -> None:
    taken(window)
    with pytest.raises(BadFrame):
        window.acknowledge(number, 9, results)


def test_refusals_without_end_are_only_counted() -> None:
    window = Window(1)
    count = REFUSED_KEPT_MAX + 5
    submit(window, *map(str, range(count)))
    window.take()
    window.acknowledge(1, 9, [["denied", "no"]] * count)
    results = window.collect()
    assert (results.refused_count, len(results.refused)) == (count, REFUSED_KEPT_MAX)
