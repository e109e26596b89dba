"""Options of subjects on nodes that share one Redis: what each caches of the log, also after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastpath.client.errors import ControlRefused
from tests.support.edge.rules import Rules, rule, ruled
from tests.support.redis import RedisServer
from tests.support.waiting import until

ROWS = [{"id": 1, "pattern": "/o/**", "cache_messages": 3}]


@pytest.fixture
def nodes() -> Iterator[list[Rules]]:
    """Two nodes of one Redis, each with the rules and options of an agent of its own."""
    with ExitStack() as opened:
        server = opened.enter_context(RedisServer())
        settings = {"engine": server.url, "cache_messages": 10}
        found = [opened.enter_context(ruled(rule(1, "/o/**"), **settings)) for _ in range(2)]
        for node in found:
            node.change(options=ROWS)
        yield found


def cached(node: Rules, subject: str) -> Any:
    """How many messages of the subject the node has, and which is the newest."""
    found = node.control.subject(subject)
    return found["cached"], found["seq"]


def test_every_node_caches_what_they_say(nodes: list[Rules]) -> None:
    first, second = nodes
    with second.client() as reader:
        reader.subscribe("/o/a")
        first.publish(*(["/o/a", f"{number}"] for number in range(1, 9)))
        assert reader.texts(8) == [str(number) for number in range(1, 9)]
    for node in nodes:
        until(lambda node=node: cached(node, "/o/a") == (3, 8))
    first.change(options=[])
    first.publish(["/o/a", "9"])
    until(lambda: cached(first, "/o/a") == (4, 9))
    until(lambda: cached(second, "/o/a") == (3, 9))


def test_a_node_that_starts_has_no_more_than_the_settings_say_until_they_come(nodes: list[Rules]) -> None:
    first, second = nodes
    for node in nodes:
        node.change(options=[{"id": 1, "pattern": "/o/**", "cache_messages": 20}])
    first.publish(*(["/o/a", f"{number}"] for number in range(1, 16)))
    until(lambda: cached(second, "/o/a") == (15, 15))
    second.sidecar.kill()
    second.sidecar.start()
    second.control.close()
    until(lambda: cached(second, "/o/a") == (10, 15))
    second.full(rule(1, "/o/**"))
    second.change(options=ROWS)
    until(lambda: cached(second, "/o/a") == (3, 15))


def test_no_node_has_a_snapshot_where_none_is_kept(nodes: list[Rules]) -> None:
    """Redis has one, as it knows nothing of options: a node that starts gives it until they come, and then none."""
    first, second = nodes
    quiet = [{"id": 1, "pattern": "/o/**", "retained": False}]
    first.publish(["/o/a", "1"], ["/o/b", "1"])
    for node in nodes:
        until(lambda node=node: [found(node, subject) for subject in ("/o/a", "/o/b")] == ["1", "1"])
        node.change(options=quiet)
        until(lambda node=node: [found(node, subject) for subject in ("/o/a", "/o/b")] == [None, None])
    first.publish(["/o/a", "2"])
    until(lambda: cached(second, "/o/a")[1] == 2)
    assert found(second, "/o/a") is None
    second.sidecar.kill()
    second.sidecar.start()
    second.control.close()
    until(lambda: found(second, "/o/a") == "2")
    second.full(rule(1, "/o/**"))
    second.change(options=quiet)
    until(lambda: found(second, "/o/a") is None)


def test_each_node_gives_what_is_published_through_it_the_quality_that_options_say(nodes: list[Rules]) -> None:
    for node in nodes:
        node.change(options=[{"id": 1, "pattern": "/o/*", "delivery": "standard"}])
    with nodes[1].client() as reader:
        reader.subscribe("/o/a")
        for number, node in enumerate(nodes):
            assert node.control.publish([["/o/a", f"{number}"]])["results"] == [0]
            assert reader.texts(1) == [f"{number}"]
    for node in nodes:
        until(lambda node=node: (cached(node, "/o/a"), found(node, "/o/a")) == ((0, 0), "1"))


def found(node: Rules, subject: str) -> Any:
    """The content of the snapshot that the node has of the subject; None also where it has not heard of that yet."""
    try:
        snapshot = node.control.subject(subject)["snapshot"]
    except ControlRefused as refused:
        if refused.code != "unknown":
            raise
        return None
    return snapshot and snapshot["content"]
