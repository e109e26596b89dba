"""Places by user and by address: exact counts over all workers, whatever order things happen in."""

from __future__ import annotations

import random

import pytest

from fastpath.core.sessions.connection_quotas import PER_ADDRESS, PER_USER, ConnectionQuotas


def test_the_newest_gets_none_and_a_place_that_is_left_can_be_taken() -> None:
    seats = ConnectionQuotas(2, 3)
    assert [seats.take((0, number), "ann", f"10.0.0.{number}") for number in range(3)] == ["", "", PER_USER]
    seats.leave((0, 0))
    seats.leave((0, 2))  # it had none
    assert seats.take((1, 0), "ann", "10.0.0.9") == "", "worker 1's connection 0 is another than worker 0's"
    assert [seats.take((0, number), "", "10.0.0.1") for number in (5, 6, 7)] == ["", "", PER_ADDRESS]


def test_who_is_not_signed_in_is_not_counted_by_user() -> None:
    seats = ConnectionQuotas(1, 0)
    assert [seats.take((0, number), "", "10.0.0.1") for number in range(100)] == [""] * 100


def test_a_connection_that_becomes_another_users_leaves_its_old_place() -> None:
    seats = ConnectionQuotas(1, 2)
    assert seats.take((0, 1), "", "10.0.0.1") == ""
    assert seats.take((0, 1), "ann", "10.0.0.1") == ""
    assert seats.take((0, 2), "", "10.0.0.1") == ""
    assert seats.take((0, 2), "ann", "10.0.0.1") == PER_USER
    assert len(seats) == 1


def test_a_worker_that_dies_leaves_all_its_places() -> None:
    seats = ConnectionQuotas(0, 2)
    seats.take((1, 1), "", "10.0.0.1")
    seats.take((1, 2), "", "10.0.0.1")
    seats.forget(1)
    assert len(seats) == 0
    assert seats.take((0, 1), "", "10.0.0.1") == ""


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_the_counts_are_those_of_who_is_there(seed: int) -> None:
    chance = random.Random(seed)
    seats = ConnectionQuotas(3, 4)
    there: dict[tuple[int, int], tuple[str, str]] = {}
    for _ in range(2000):
        seat = chance.randrange(2), chance.randrange(20)
        user, address = chance.choice(["", "ann", "bob"]), chance.choice(["a", "b", "c"])
        if chance.random() < 0.4:
            seats.leave(seat)
            there.pop(seat, None)
            continue
        others = [taken for other, taken in there.items() if other != seat]
        crowded = sum(taken[1] == address for taken in others) >= 4
        many = user and sum(taken[0] == user for taken in others) >= 3
        there.pop(seat, None)
        assert seats.take(seat, user, address) == (PER_ADDRESS if crowded else PER_USER if many else "")
        if not crowded and not many:
            there[seat] = user, address
        assert len(seats) == len(there)
