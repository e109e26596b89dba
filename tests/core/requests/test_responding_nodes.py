"""Which other node is asked."""

from __future__ import annotations

import pytest

from fastpath.core.presence.replication import PresenceReceiver, PresenceSender
from fastpath.core.requests.responding_nodes import RespondingNodes


def test_the_node_that_was_asked_longest_ago_of_those_that_cover_the_subject() -> None:
    nodes = RespondingNodes()
    nodes.set("a life 0", "/q/*", 1, 0)
    nodes.set("b life 0", "/q/**", 1, 0)
    nodes.set("b life 0", "/q/x", 1, 0)
    nodes.set("c life 0", "/other/x", 1, 0)
    assert sorted(nodes.choose("/q/x", ()) or "" for _ in range(2)) == ["a", "b"]
    order = [nodes.choose("/q/x", ()) for _ in range(4)]
    assert order[:2] == order[2:]
    assert order[0] != order[1]
    assert nodes.choose("/q/x/y", ()) == "b"
    assert nodes.choose("/q/x", ()) == "a", "b was asked by another pattern meanwhile"
    assert nodes.choose("/q/x", ("a",)) == "b"
    assert nodes.choose("/q/x", ("a", "b")) is None
    assert nodes.choose("/nobody/x", ()) is None


def test_a_node_answers_while_it_says_so_in_any_version() -> None:
    nodes = RespondingNodes()
    nodes.set("a life 0", "/q/x", 1, 0)
    nodes.set("a life 0", "/q/x", 1, 0)
    nodes.set("a life 1", "/q/x", 1, 0)
    nodes.drop("a life 0")
    assert nodes.choose("/q/x", ()) == "a"
    nodes.set("a life 1", "/q/x", 0, 0)
    nodes.set("a life 1", "/q/x", 0, 0)
    assert nodes.choose("/q/x", ()) is None
    nodes.drop("a life 1")
    nodes.drop("a life 1")
    nodes.forget("a")
    assert nodes.patterns == 0


@pytest.mark.parametrize("pattern", ["", "x", "/a/**/b", "/__sys__/x"])
def test_what_nobody_may_answer_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        RespondingNodes().set("a life 0", pattern, 1, 0)


def test_what_passes_the_bound_is_left_out_and_counted() -> None:
    nodes = RespondingNodes(patterns_max=2)
    for name in "abc":
        nodes.set("a life 0", f"/q/{name}", 1, 0)
    assert (nodes.choose("/q/c", ()), nodes.patterns, nodes.left_out) == (None, 2, 1)
    nodes.set("a life 0", "/q/a", 0, 0)
    nodes.set("a life 0", "/q/c", 1, 0)
    assert nodes.choose("/q/c", ()) == "a"


def test_a_node_that_speaks_anew_ends_what_was_and_has_all_at_once() -> None:
    nodes = RespondingNodes()
    asked: list[str] = []
    ended: list[str] = []
    receiver = PresenceReceiver(nodes, 1000, asked.append, ended.append)
    first = PresenceSender("a", "1")
    first.set("/q/x", 1)
    assert receiver.hear(first.next() or [], 0)
    assert (receiver.members, receiver.synced, nodes.choose("/q/x", ())) == (1, 1, "a")
    again = PresenceSender("a", "2", {f"/q/{n}": 1 for n in range(300)})
    assert receiver.hear(again.beat(), 1)
    assert (ended, asked, receiver.synced) == (["a"], ["a"], 0), "a sign of life does not say that there is nothing"
    again.ask()
    for _ in range(2):
        assert receiver.synced == 0
        assert not receiver.hear(again.next() or [], 2)
    assert (again.busy, receiver.synced) == (False, 1)
    assert (nodes.choose("/q/x", ()), nodes.choose("/q/299", ())) == (None, "a")
    again.set("/q/x", 1)
    receiver.hear(again.next() or [], 3)
    assert nodes.choose("/q/x", ()) == "a"
    receiver.hear(again.bye(), 4)
    assert (ended, nodes.patterns) == (["a", "a"], 0)
    receiver.hear(PresenceSender("b", "1").beat(), 5)
    receiver.clear()
    assert (ended, receiver.members) == (["a", "a", "b"], 0)
