"""What a process remembers of its groups, and which sidecar it has told."""

from __future__ import annotations

from realtime.channel_layer.memberships import PER_REQUEST, SWEPT_MIN, Memberships


def said(memberships: Memberships, server: str) -> list[list[object]]:
    """What that server is told, without the seconds that are left."""
    return [row[:3] for part in memberships.missing(server) for row in part]


def test_a_new_server_is_told_all_and_one_that_knows_them_nothing() -> None:
    memberships = Memberships()
    memberships.add("g", "a", 100, 60)
    memberships.add("g", "b", 5, 60)
    memberships.discard("g", "a")
    memberships.discard("g", "a")
    assert said(memberships, "one") == [["g", "b", 5]]
    assert said(memberships, "one") == [["g", "b", 5]]  # until it is known that it has heard it
    memberships.told("one")
    assert said(memberships, "one") == []
    assert said(memberships, "two") == [["g", "b", 5]]


def test_what_is_over_is_forgotten_and_the_time_that_is_left_is_told() -> None:
    memberships = Memberships()
    memberships.add("g", "a", 1, 0)
    memberships.add("g", "b", 1, 60)
    [[[_, channel, _, seconds]]] = memberships.missing("one")
    assert channel == "b"
    assert isinstance(seconds, float)
    assert 0 < seconds <= 60
    assert len(memberships) == 1


def test_channels_that_nobody_takes_out_are_forgotten_when_their_time_is_over() -> None:
    """As those of consumers that died: a process that runs for long keeps no more than what counts."""
    memberships = Memberships()
    for number in range(10 * SWEPT_MIN):
        memberships.add("g", f"c{number}", 1, 0)
        assert len(memberships) < SWEPT_MIN
    for number in range(3 * SWEPT_MIN):
        memberships.add("g", f"d{number}", 1, 60)
    assert 3 * SWEPT_MIN <= len(memberships) < 4 * SWEPT_MIN


def test_many_are_told_in_several_requests() -> None:
    memberships = Memberships()
    for number in range(PER_REQUEST + 1):
        memberships.add("g", f"c{number}", 1, 60)
    assert [len(part) for part in memberships.missing("one")] == [PER_REQUEST, 1]


def test_flush_forgets_the_groups_of_one_layer() -> None:
    memberships = Memberships()
    memberships.add("x:g", "x:a", 1, 60)
    memberships.add("y:g", "y:a", 1, 60)
    memberships.flush("x:")
    assert said(memberships, "one") == [["y:g", "y:a", 1]]
