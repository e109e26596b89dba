"""What waits until a time."""

from __future__ import annotations

import random

from fastpath.core.requests.timed import STEP_MS, Timed


def test_what_is_due_is_given_up_no_sooner_and_at_most_one_step_later() -> None:
    waiting: Timed[int] = Timed()
    for until in (950, 999, 1000, 1001, 1100, 5000):
        waiting.put(str(until), until, until)
    told: dict[int, int] = {}
    for now in range(0, 6000, 10):
        for name, until in waiting.due(now):
            assert name == str(until)
            told[until] = now
    assert told.keys() == {950, 999, 1000, 1001, 1100, 5000}
    assert all(until <= now <= until + STEP_MS for until, now in told.items()), told


def test_nothing_is_left_of_what_was_taken() -> None:
    waiting: Timed[int] = Timed()
    chosen = random.Random(1)
    there: dict[str, int] = {}
    now = 0
    for number in range(3000):
        until = now + chosen.randrange(1, 1000)
        waiting.put(str(number), number, until)
        there[str(number)] = number
        if chosen.random() < 0.6:
            name = chosen.choice(list(there))
            assert waiting.get(name) == there[name] == waiting.take(name)
            del there[name]
            assert waiting.take(name) is None
        now += 1
        for name, thing in waiting.due(now):
            assert there.pop(name) == thing
        assert len(waiting) == len(there)
    assert dict(waiting.items()) == there
    waiting.due(now + 2000)
    assert (len(waiting), waiting.items()) == (0, [])
