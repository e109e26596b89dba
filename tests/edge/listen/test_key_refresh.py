"""When a JWK set at an address is fetched, as a table of what happens and when."""

from __future__ import annotations

from fastpath.edge.listen.key_refresh import KeyRefresh


def fetches(refresh: KeyRefresh, now: float, until: float, comes: bool = True) -> list[float]:
    """The seconds in which it is fetched, each of which it comes in or does not."""
    found = []
    while now < until:
        if refresh.begin(now):
            found.append(now)
            (refresh.came if comes else refresh.failed)(now)
        now += 1
    return found


def test_it_is_fetched_at_the_start_and_again_and_again() -> None:
    assert fetches(KeyRefresh(300), 1000, 2000) == [1000, 1300, 1600, 1900]


def test_one_that_does_not_come_backs_off() -> None:
    refresh = KeyRefresh(300)
    assert fetches(refresh, 0, 240, comes=False) == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    refresh.want()
    assert fetches(refresh, 240, 243) == [], "whoever sends odd tokens does not shorten that"
    assert fetches(refresh, 243, 900) == [243, 543, 843], "and then it is as before"


def test_pauses_are_no_longer_than_usual() -> None:
    assert fetches(KeyRefresh(5), 0, 30, comes=False) == [0, 1, 3, 7, 12, 17, 22, 27]


def test_a_key_that_is_not_known_is_looked_for_but_not_too_often() -> None:
    refresh = KeyRefresh(300)
    assert fetches(refresh, 0, 100) == [0]
    refresh.want()
    assert fetches(refresh, 100, 104) == [100], "its 10 s are long over"
    found = []
    for now in range(104, 140):
        refresh.want()
        found += fetches(refresh, now, now + 1)
    assert found == [110, 120, 130]


def test_one_at_a_time() -> None:
    refresh = KeyRefresh(300)
    assert refresh.begin(0)
    refresh.want()
    refresh.hurry()
    assert not refresh.begin(500)
    refresh.came(500)
    assert not refresh.begin(600)
    refresh.hurry()
    assert refresh.begin(601)
