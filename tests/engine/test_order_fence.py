"""Nothing overtakes what could not be stored, and nobody waits for it for long."""

from __future__ import annotations

from fastpath.core.protocol.messages import Message
from fastpath.core.protocol.packets import Refusal
from fastpath.engine import order_fence
from fastpath.engine.order_fence import HELD_SECONDS, HELD_SECONDS_MAX, OrderFence

WHY: Refusal = ("unavailable", "not yet")


def messages(*numbers: int, publisher: str = "p") -> list[Message]:
    return [Message("/w/a", "x", publisher=publisher, publication=number) for number in numbers]


class Held(OrderFence):
    """With a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        super().__init__(lambda: self.now)

    def passed(self, *numbers: int) -> list[int]:
        """Those of the numbers that need not wait."""
        refused = self.refused(messages(*numbers), WHY)
        assert set(refused.values()) <= {WHY}
        return [number for index, number in enumerate(numbers) if index not in refused]


def test_what_was_on_its_way_waits_until_the_first_comes_again() -> None:
    held = Held()
    held.note(messages(5, 6))
    assert held.passed(7, 8) == []
    assert held.passed(9) == []
    assert not held.refused(messages(7, publisher="q"), WHY)
    assert not held.refused([Message("/w/a", "x")], WHY)
    assert held.passed(5, 6, 7, 8, 9) == [5, 6, 7, 8, 9]
    assert not held


def test_what_could_not_be_stored_again_holds_up_again() -> None:
    held = Held()
    held.note(messages(5))
    assert held.passed(6) == []
    held.note(messages(5, 6))  # there was no room for it
    held.now += HELD_SECONDS
    assert held.passed(6) == [], "the second round begins anew"
    assert held.passed(5, 6) == [5, 6]


def test_who_sends_the_later_ones_again_has_given_up_the_first() -> None:
    held = Held()
    held.note(messages(5))
    assert held.passed(6, 7, 8) == []
    assert held.passed(7, 8, 9) == [7, 8, 9]


def test_who_sends_nothing_again_waits_a_moment_from_when_it_is_over() -> None:
    assert HELD_SECONDS <= 5
    held = Held()
    held.away()
    held.note(messages(5))
    held.now += HELD_SECONDS_MAX - 1
    assert held.passed(6) == []
    held.back()
    assert held.passed(7) == []
    held.note(messages(7))  # that does not prolong it
    held.now += 1.1
    assert held.passed(8) == [8]

    held.note(messages(9))
    held.now += HELD_SECONDS
    assert held.passed(10) == []
    held.now += 0.1
    assert held.passed(11) == [11]


def test_ten_thousand_who_are_held_up_cost_each_other_nothing() -> None:
    held = Held()
    later = [messages(6, publisher=f"{n}") for n in range(10_000)]
    for n in range(10_000):
        held.note(messages(5, publisher=f"{n}"))
    assert all(held.refused(one, WHY) for one in later)


def test_those_who_never_come_again_are_forgotten_some_at_a_time() -> None:
    held = Held()
    count = order_fence.SWEPT_MAX * 2 + 10
    for n in range(count):
        held.note(messages(5, publisher=f"{n}"))
    held.now += HELD_SECONDS + 0.1
    lengths = []
    for _ in range(3):
        held.passed(1)
        held.passed(1)
        lengths.append(len(held))
        held.now += order_fence.SWEEP_SECONDS
    assert lengths == [order_fence.SWEPT_MAX + 10, 10, 0]
