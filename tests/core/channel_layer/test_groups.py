"""Groups: who is in which, until when, and what becomes of a process' channels when it is gone."""

from __future__ import annotations

import pytest

from fastpath.core.channel_layer.groups import GONE_MS, Groups, process_of
from fastpath.core.protocol.errors import InvalidMessage

LOCAL = "asgi:specific.p1!abc"


def test_a_channel_is_in_a_group_once_with_its_capacity_until_it_is_taken_out() -> None:
    groups = Groups()
    groups.add("g", "a", 100, 60)
    groups.add("g", "b", 5, 60)
    groups.add("g", "a", 7, 60)
    assert groups.members("g", 0) == [("a", 7), ("b", 5)]
    assert groups.discard("g", "a")
    assert not groups.discard("g", "a")
    assert not groups.discard("h", "a")
    assert (groups.members("g", 0), groups.memberships) == ([("b", 5)], 1)


def test_a_membership_is_over_in_time_unless_it_is_renewed() -> None:
    groups = Groups()
    groups.add("g", "a", 1, 60)
    groups.add("g", "b", 1, 60)
    groups.add("g", "b", 1, 100)
    assert groups.members("g", 60) == [("b", 1)]
    groups.sweep(60)
    assert groups.memberships == 1
    groups.sweep(100)
    assert (groups.memberships, len(groups)) == (0, 0)


def test_memberships_are_bounded_and_may_be_renewed_all_the_same() -> None:
    groups = Groups(memberships_max=1)
    groups.add("g", "a", 1, 60)
    groups.add("g", "a", 1, 70)
    with pytest.raises(InvalidMessage, match="over 1 channels"):
        groups.add("g", "b", 1, 60)
    assert groups.members("g", 0) == [("a", 1)]


def test_the_name_of_a_process_stands_before_the_mark() -> None:
    assert [process_of(name) for name in (LOCAL, "asgi:a.b.p2!", "asgi:a.b")] == ["p1", "p2", ""]


def test_channels_of_a_process_that_stays_away_leave_their_groups_and_no_others() -> None:
    groups = Groups()
    for channel in (LOCAL, "asgi:specific.p2!abc", "asgi:jobs"):
        groups.add("g", channel, 1, 10 * GONE_MS)
    groups.gone("p1", 0)
    groups.sweep(GONE_MS - 1)
    assert groups.memberships == 3
    groups.sweep(GONE_MS)
    assert [channel for channel, _ in groups.members("g", 0)] == ["asgi:specific.p2!abc", "asgi:jobs"]


def test_a_process_that_is_back_in_time_keeps_its_groups() -> None:
    groups = Groups()
    groups.add("g", LOCAL, 1, 10 * GONE_MS)
    groups.gone("p1", 0)
    groups.came("p1")
    groups.sweep(2 * GONE_MS)
    assert groups.memberships == 1


def test_flush_empties_the_groups_of_one_prefix() -> None:
    groups = Groups()
    groups.add("x:g", LOCAL, 1, 60)
    groups.add("y:g", LOCAL, 1, 60)
    groups.flush("x:")
    assert (groups.members("x:g", 0), groups.members("y:g", 0)) == ([], [(LOCAL, 1)])
    groups.discard("y:g", LOCAL)
    assert groups.memberships == 0


def test_memberships_are_found_by_process_and_those_that_others_remember_are_known() -> None:
    groups = Groups()
    groups.add("g", "a.p!1", 5, 100)
    groups.add("g", "named", 6, 100, shared=True)
    groups.add("g", "named", 7, 200)
    assert (groups.of("p"), groups.of("")) == ([("g", "a.p!1", 5, 100)], [("g", "named", 7, 200)])
    assert [groups.is_shared("g", channel) for channel in ("a.p!1", "named", "none")] == [False, True, False]
    groups.discard("g", "named")
    assert groups.of("") == []
