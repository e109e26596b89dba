"""What a publisher has sent and what came of it, without I/O."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.publisher.window import REFUSED_KEPT_MAX, Window
from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import Unpacker
from tests.support.client.ledger import LedgerServer
from tests.vectors.build import packed


def submit(window: Window, *contents: str) -> None:
    window.submit(packed([["/a/b", content] for content in contents]), len(contents))


def taken(window: Window) -> list[tuple[int, list[str]]]:
    """The batches that may be sent now: their numbers and contents."""
    result = []
    while frame := window.take():
        [[_, number, rows, _]] = Unpacker(1 << 20).feed(frame)
        result.append((number, [content for _, content in rows]))
    return result


def numbered(window: Window) -> list[tuple[int, str]]:
    """The rows that may be sent now: their publication numbers and contents."""
    result = []
    while frame := window.take():
        [[_, _, rows, first]] = Unpacker(1 << 20).feed(frame)
        result += [(first + place, content) for place, (_, content) in enumerate(rows)]
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
    """What may have been stored goes first, with its numbers; what was not gets new ones, which rise."""
    taken(window)
    window.acknowledge(1, 9, [1, ["not_ready", "wait"]])
    window.rewind()
    assert numbered(window) == [(3, "c"), (4, "d"), (5, "b")]


def test_what_is_sent_again_keeps_its_numbers(window: Window) -> None:
    assert numbered(window) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    window.acknowledge(1, 9, [1, 2])
    window.rewind(size=5)
    assert numbered(window) == [(3, "c"), (4, "d"), (5, "e")]


def test_what_could_not_be_stored_safely_goes_again_under_its_numbers_and_what_was_not_under_new_ones() -> None:
    window = Window(1)
    submit(window, *"abcdef")
    submit(window, "g")
    numbered(window)
    away, wait = ["unavailable", "away"], ["not_ready", "wait"]
    assert window.acknowledge(1, 9, [away, away, wait, 7, ["denied", "no"], away])
    assert window.holds and window.unavailable and window.why_held == "away"
    window.release()
    sent = []
    for number in range(2, 6):
        sent.append(numbered(window))
        window.acknowledge(number, 9, [number] * len(sent[-1]))
    assert sent == [[(1, "a"), (2, "b")], [(6, "f")], [(7, "c")], [(8, "g")]]
    results = window.collect()
    assert window.idle
    assert (results.messages, results.accepted) == (7, 6)
    assert [(refusal.index, refusal.code) for refusal in results.refused] == [(4, "denied")]


def test_a_retry_that_was_stored_before_is_accepted(window: Window) -> None:
    settled: dict[int, Any] = {}
    window = Window(2, on_settled=lambda index, outcome: settled.update({index: outcome}))
    submit(window, *"abcd")
    numbered(window)
    window.acknowledge(1, 9, [[8, 41], 43, ["stale", "too old"], 0])
    refused = settled.pop(2)
    assert settled == {0: (8, 41), 1: (9, 43), 3: (0, 0)}
    assert (refused.index, refused.code) == (2, "stale")
    results = window.collect()
    assert (results.accepted, results.refused_count) == (3, 1)


def test_what_came_too_late_gets_a_new_number_unless_another_run_may_have_used_it() -> None:
    late = ["out_of_order", "later ones are stored"]
    for alone in (True, False):
        window = Window(2, alone=alone)
        submit(window, *"ab")
        numbered(window)
        window.acknowledge(1, 9, [late, 2])
        window.release()
        assert numbered(window) == ([(3, "a")] if alone else [])
        assert [refusal.code for refusal in window.results.refused] == ([] if alone else ["out_of_order"])


def test_a_message_that_someone_waits_for_is_tried_until_it_is_settled() -> None:
    window = Window(1)
    batch = window.submit(packed([["/a/b", "x"]]), 1, alone=True)
    for number in (1, 2):
        assert numbered(window) == [(1, "x")]
        window.acknowledge(number, 9, [["unavailable", "away"]])
        assert not batch.done
        window.release()
    numbered(window)
    window.acknowledge(3, 9, [[8, 41]])
    assert (batch.done, batch.seq, batch.refused) == (True, 41, None)


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


steps = st.lists(
    st.sampled_from(
        ["submit", "submit", "send", "", "", "lost", "unavailable", "not_ready", "answer", "answer", "cut"]
    ),
    max_size=60,
)


@given(steps)
def test_through_any_trouble_each_row_is_stored_once(steps: list[str]) -> None:
    settled: dict[int, Any] = {}
    window = Window(3, on_settled=lambda index, outcome: settled.update({index: outcome}))
    server = LedgerServer()
    there: deque[list[Any]] = deque()
    back: deque[tuple[int, list[Any]]] = deque()
    count = 0

    def step(name: str) -> None:
        nonlocal count
        match name:
            case "submit":
                submit(window, *(f"{count + place}" for place in range(3)))
                count += 3
            case "send":
                if window.holds:
                    window.release()
                while frame := window.take():
                    there.extend(Unpacker(1 << 20).feed(frame))
            case "answer":
                if back:
                    window.acknowledge(back[0][0], 9, back.popleft()[1])
            case "cut":
                there.clear()
                back.clear()
                window.rewind()
            case trouble if there:
                _, number, rows, first = there.popleft()
                results = [
                    server.store(first + place, row[1], trouble if place else "") for place, row in enumerate(rows)
                ]
                back.append((number, results))

    for name in steps:
        step(name)
    for _ in range(300):
        for name in ("send", "", "answer"):
            step(name)
    assert window.idle
    results = window.collect()
    assert (results.messages, results.accepted) == (count, count)
    assert sorted(map(int, server.stored)) == list(range(count))
    assert {index: int(server.stored[position.seq - 1]) for index, position in settled.items()} == {
        index: index for index in range(count)
    }
    if "not_ready" not in steps:
        assert server.stored == [f"{index}" for index in range(count)]
