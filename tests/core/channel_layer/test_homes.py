"""Which node keeps which channels, of what the nodes say."""

from __future__ import annotations

import pytest

from fastpath.core.channel_layer.homes import CONNECTED, LEFT, NAMED, Homes, place_of, process_at


@pytest.mark.parametrize(
    ("channel", "place", "process"),
    [("asgi:specific.p1!x", ".p1", "p1"), ("asgi:jobs", NAMED, ""), ("asgi:a.b", NAMED, ""), ("asgi:a.*!x", ".*", "*")],
)
def test_a_process_local_channel_has_its_process_place_and_all_others_one(
    channel: str, place: str, process: str
) -> None:
    assert (place_of(channel), process_at(place)) == (place, process)


def test_who_has_the_process_connected_comes_first_and_of_equals_the_first_name() -> None:
    homes = Homes()
    homes.set("a 1 0", ".p", LEFT, 0)
    homes.set("c 1 0", ".p", CONNECTED, 0)
    assert homes.find(".p") == ("c", CONNECTED)
    homes.set("b 1 0", ".p", CONNECTED, 0)
    assert homes.find(".p") == ("b", CONNECTED)
    homes.set("b 1 0", ".p", 0, 0)
    homes.drop("c 1 0")
    assert homes.find(".p") == ("a", LEFT)
    homes.drop("a 1 0")
    homes.drop("a 1 0")
    assert (homes.find(".p"), len(homes)) == (None, 0)


def test_what_a_node_says_anew_replaces_what_it_said_and_changes_are_told_once() -> None:
    homes = Homes()
    homes.set("a 1 0", ".p", CONNECTED, 0)
    homes.set("a 1 1", ".p", CONNECTED, 0)  # a whole, beside what it was before
    homes.drop("a 1 0")
    assert homes.find(".p") == ("a", CONNECTED)
    assert homes.take_changed() == {".p"}
    homes.set("a 1 1", ".p", CONNECTED, 0)
    homes.set("a 1 1", ".q", 0, 0)
    assert homes.take_changed() == set()
    homes.set("a 1 1", ".p", LEFT, 0)
    assert homes.take_changed() == {".p"}


def test_places_are_bounded_and_what_is_none_is_refused() -> None:
    homes = Homes(places_max=1)
    homes.set("a 1 0", ".p", CONNECTED, 0)
    homes.set("a 1 0", ".q", CONNECTED, 0)
    assert (homes.find(".q"), homes.left_out) == (None, 1)
    homes.set("a 1 0", ".p", 0, 0)
    homes.set("a 1 0", ".q", CONNECTED, 0)
    assert homes.find(".q") == ("a", CONNECTED)
    with pytest.raises(ValueError, match="no place"):
        homes.set("a 1 0", "jobs", 1, 0)
