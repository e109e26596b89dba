"""The breaker as a table of what is told at what time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from fastpath.client.control.breaker import PAUSE_SECONDS, PAUSE_SECONDS_MAX, Breaker

TRIAL = 5.0


class Clock:
    """A time that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_to_a_bound_and_end_with_an_answer() -> None:
    clock = Clock()
    breaker = Breaker(TRIAL, clock)
    for pause in (PAUSE_SECONDS, 2 * PAUSE_SECONDS, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MAX):
        assert not breaker.admit()
        asked_at = clock.now
        clock.now += TRIAL
        breaker.open(asked_at)
        assert breaker.refusal() == f"it did not answer in time; it is asked again within {pause:.1f} s"
        clock.now += pause - 0.01
        assert breaker.admit()
        clock.now += 0.01
        assert not breaker.refusal()
    assert not breaker.admit()
    breaker.close()
    assert [breaker.admit() for _ in range(3)] == [""] * 3
    breaker.open(clock.now)
    assert f"within {PAUSE_SECONDS:.1f} s" in breaker.admit(), "the pauses begin anew"


def test_after_the_pause_one_tries_and_if_he_is_lost_another() -> None:
    clock = Clock()
    breaker = Breaker(TRIAL, clock)
    breaker.open(clock.now)
    clock.now += PAUSE_SECONDS
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: breaker.admit(), range(64)))
    assert told.count("") == 1
    assert breaker.refusal(), "who only looks is told to wait, too"
    clock.now += TRIAL
    assert [bool(breaker.admit()) for _ in range(2)] == [False, True]


def test_calls_beside_each_other_count_once() -> None:
    clock = Clock()
    breaker = Breaker(TRIAL, clock)
    asked_at = clock.now
    clock.now += TRIAL
    for _ in range(5):
        breaker.open(asked_at)
        clock.now += 0.01
    assert "within 1.9" in breaker.refusal() or "within 2.0" in breaker.refusal()
