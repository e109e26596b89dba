"""Which server is picked, and how long the waits are: pure, with chance as an argument."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.client.backoff import Backoff, Jitter
from fastpath.client.servers import ServerList, WeightedServer, parse_servers

weights = st.lists(st.integers(0, 100), min_size=1, max_size=6)
chance = st.floats(0, 1, exclude_max=True)


def listed(weights: list[int], draw: Any = random.random) -> ServerList:
    """Servers named by their places."""
    return ServerList([WeightedServer(f"ws://{place}/ws", weight) for place, weight in enumerate(weights)], draw)


@given(weights, chance)
def test_a_round_tries_each_once_and_those_of_weight_0_last(weights: list[int], draw: float) -> None:
    servers = listed(weights, lambda: draw)
    tried = []
    while url := servers.pick():
        tried.append(weights[int(url[5:-3])])
        servers.fail(url)
    assert sorted(tried) == sorted(weights)
    assert tried == [weight for weight in tried if weight] + [0] * weights.count(0)
    servers.new_round()
    assert servers.pick()


@given(weights, st.data())
def test_who_was_lost_is_picked_only_where_no_other_with_a_weight_is(weights: list[int], data: st.DataObject) -> None:
    servers = listed(weights, lambda: data.draw(chance))
    proper = {f"ws://{place}/ws" for place, weight in enumerate(weights) if weight}
    lost: set[str] = set()
    for _ in range(5):
        url = servers.pick()
        if proper - lost:
            assert url in proper - lost
        left = servers.lose(url)
        lost.add(url)
        assert left is bool(proper - lost)
        if not left:
            lost = {url}
    servers.forgive()
    assert servers.pick() in (proper or servers.urls)


def test_the_share_of_a_server_is_its_weight() -> None:
    servers = listed([100, 50, 0, 50], random.Random(7).random)
    picks = [servers.pick() for _ in range(8000)]
    shares = [picks.count(f"ws://{place}/ws") / 8000 for place in range(4)]
    assert shares == [pytest.approx(0.5, abs=0.02), pytest.approx(0.25, abs=0.02), 0, pytest.approx(0.25, abs=0.02)]


def test_the_list_changes() -> None:
    servers = listed([100, 100])
    servers.add([WeightedServer("ws://0/ws", 0), WeightedServer("ws://new/ws", 7)])
    assert servers.urls == ["ws://0/ws", "ws://1/ws", "ws://new/ws"]
    servers.fail("ws://1/ws")
    assert servers.pick() == "ws://new/ws"
    servers.fail("ws://new/ws")
    assert servers.pick() == "ws://0/ws"
    servers.replace([WeightedServer("ws://other/ws"), WeightedServer("ws://1/ws")])
    assert servers.pick() == "ws://other/ws"
    servers.replace([])
    assert servers.urls == ["ws://other/ws", "ws://1/ws"]


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ("ws://a/ws", [("ws://a/ws", 100)]),
        (["ws://a/ws", ("wss://b/ws", 0)], [("ws://a/ws", 100), ("wss://b/ws", 0)]),
        ([{"url": "ws://a/ws"}, {"url": "ws://b/ws", "weight": 7}], [("ws://a/ws", 100), ("ws://b/ws", 7)]),
        (["ws://a/ws", ("ws://a/ws", 5)], [("ws://a/ws", 100)]),
        ([], []),
    ],
)
def test_how_servers_are_given(given: Any, parsed: list[tuple[str, int]]) -> None:
    assert parse_servers(given) == parsed


@pytest.mark.parametrize(
    "given",
    [
        "http://a",
        "",
        "ws://",
        "ws://a:99999/ws",
        "ws://a:b/ws",
        "ws://[::1/ws",
        "ws://a..b/ws",
        [{"weight": 5}],
        [("ws://a", 101)],
        [("ws://a", -1)],
        [("ws://a", 1.5)],
        [("ws://a", True)],
    ],
)
def test_what_is_no_server(given: Any) -> None:
    with pytest.raises(ValueError, match="ws://"):
        parse_servers(given)


@given(st.integers(1, 40), chance)
def test_waits_stay_within_their_bounds(failures: int, draw: float) -> None:
    backoff = Backoff(draw=lambda: draw)
    waits = [backoff.next_seconds() for _ in range(failures)]
    for k, wait in enumerate(waits, 1):
        if k <= 3:
            assert 5 * (k - 1) <= wait <= 5 * k
        else:
            bound = min(360, 20 * 2 ** (k - 4))
            assert bound / 2 <= wait <= bound
    backoff.reset()
    assert backoff.next_seconds() <= 5


def test_after_very_many_failures_it_still_waits() -> None:
    backoff = Backoff(draw=lambda: 0.5)
    for _ in range(3000):
        wait = backoff.next_seconds()
    assert wait == 270


def test_the_publishers_pause_doubles_up_to_its_bound() -> None:
    pauses = Jitter(0.1, 2, draw=lambda low, high: high)
    assert [pauses.next_seconds() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2]
    pauses.reset()
    assert pauses.next_seconds() == 0.1
