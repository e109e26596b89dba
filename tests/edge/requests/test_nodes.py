"""What becomes of requests between nodes, without Redis: who is asked next, what is held, and what is too late."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastpath.core.presence.replication import PresenceSender
from fastpath.edge.node import messages
from fastpath.edge.node.messenger import OtherNodes
from fastpath.edge.node.node_messages import decode_from_node, encode_for_node
from fastpath.edge.requests import nodes
from fastpath.edge.requests.nodes import RespondingOthers


class Node:
    """The node "me" with a messenger of the test's own, and a clock that is moved."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sent: list[tuple[str, messages.Packet]] = []
        self.losing: list[Callable[[bool], None]] = []
        self.answers: list[tuple[str, Any]] = []
        self.routed: list[messages.Requested] = []
        self.over: list[str] = []
        self.gone: list[str] = []
        self.speakers: dict[str, PresenceSender] = {}
        loop = SimpleNamespace(time=lambda: self.time, call_later=lambda seconds, call: call())
        runtime: Any = SimpleNamespace(
            loop=loop,
            awake=self,
            broker=SimpleNamespace(server="life"),
            end=lambda: None,
        )
        self.others = RespondingOthers(
            runtime,
            self.routed.append,
            lambda reply: self.answers.append((reply.name, reply.error or reply.content)),
            self.over.extend,
            self.gone.append,
        )
        self.way = OtherNodes(loop, lambda: None)
        self.way.serve(self.others)

    # As a messenger

    def start(self) -> None:
        """Messenger."""

    def send(self, node: str, data: bytes, lost: Callable[[bool], None] | None = None) -> None:
        """Messenger."""
        self.sent.append((node, decode_from_node(data)))
        assert lost is not None
        self.losing.append(lost)

    async def close(self) -> None:
        """Messenger."""

    # What happens

    def hear(self, node: str, packet: messages.Packet) -> None:
        """Another node says something."""
        self.way.hear(node, encode_for_node(packet))

    def meet(self, node: str, *patterns: str) -> None:
        """Another node says what it answers."""
        speaker = self.speakers.setdefault(node, PresenceSender(node, "1"))
        if not patterns:
            self.hear(node, messages.NodeResponds(speaker.beat()))
        for pattern in patterns:
            speaker.set(pattern, 1)
        while (packet := speaker.next()) is not None:
            self.hear(node, messages.NodeResponds(packet))

    def ask(self, name: str, *, timeout: int = 10_000, why: str = "") -> None:
        """A request that no responder of this node takes."""
        self.others.route(messages.Requested(name, "", 1, "/q/x", "", {}, timeout, 1, "", why=why))

    def asked(self) -> list[tuple[str, str]]:
        """The requests that were handed on since this was asked, with the node of each."""
        found = [(node, packet.name) for node, packet in self.sent if isinstance(packet, messages.Requested)]
        self.sent.clear()
        return found

    def step(self, seconds: float) -> None:
        """Time goes by."""
        self.time += seconds
        self.others.expire()


@pytest.fixture
def me() -> Node:
    """A node whose messenger is up, and which knows of two others."""
    node = Node()
    node.way.join("me", node, learns=False)
    node.way.up(3)
    node.meet("a", "/q/*")
    node.meet("b", "/q/**")
    node.sent.clear()
    return node


def reply(name: str, content: str = "reply") -> messages.Responded:
    return messages.Responded(name, "me", 1, content, {}, False, "", "", False)


def test_one_that_does_not_take_it_is_followed_by_another_and_the_last_error_is_told(me: Node) -> None:
    me.ask("r")
    ((first, _),) = me.asked()
    second = "b" if first == "a" else "a"
    me.time += 2
    me.hear(first, messages.NotTaken("r", "busy"))
    assert [packet.timeout for _, packet in me.sent if isinstance(packet, messages.Requested)] == [8000]
    assert me.asked() == [(second, "r")]
    me.hear(first, reply("r", "of one that was not asked"))
    me.hear(first, messages.NotTaken("r", ""))
    assert me.answers == []
    me.hear(second, messages.NotTaken("r", ""))
    assert me.answers == [("r", "busy")]
    me.ask("u")
    for _ in "ab":
        ((node, _),) = me.asked()
        me.hear(node, messages.NotTaken("u", "of another version"))
    assert me.answers.pop() == ("u", "unavailable")
    me.ask("t", timeout=1000)
    ((first, _),) = me.asked()
    me.time += 1
    me.hear(first, messages.NotTaken("t", ""))
    assert me.answers[1:] == [("t", "timeout")]


def test_what_did_not_arrive_goes_to_another_and_what_may_have_does_not(me: Node) -> None:
    me.ask("r")
    (first,) = me.asked()
    me.losing[-1](False)
    (second,) = me.asked()
    assert {first[0], second[0]} == {"a", "b"}
    me.losing[-1](False)
    assert me.answers == [("r", "unavailable")]
    me.ask("s")
    me.losing[-1](True)
    assert me.answers[1:] == [("s", "responder_gone")]
    assert me.others.figures()["request_messages_lost"] == 3


def test_a_reply_that_is_lost_is_followed_by_an_end(me: Node) -> None:
    me.others.reply(messages.Responded("r", "a", 2, "large", {}, True, "", "", False))
    lost = me.losing[-1]
    lost(True)
    assert len(me.sent) == 1, "the way has broken, which is told otherwise"
    lost(False)
    node, end = me.sent[-1]
    assert isinstance(end, messages.Responded)
    assert (node, end.name, end.worker, end.error) == ("a", "r", 2, "responder_gone")


def test_requests_wait_for_nodes_that_are_there_and_not_known_but_not_for_long(
    me: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "HELD_MAX", 2)
    me.way.down()
    assert me.gone == ["a", "b", ""]
    me.ask("1")
    me.way.up(1)  # the others have not come back yet
    me.ask("2")
    me.ask("3")
    assert me.answers == [("3", "unavailable")], "there is no room"
    me.speakers.clear()
    me.meet("a")
    assert me.asked() == []
    me.meet("b", "/q/x")
    assert sorted(me.asked()) == [("b", "1"), ("b", "2")]
    me.way.missing("b")
    assert me.answers[1:] == [("1", "responder_gone"), ("2", "responder_gone")]
    me.ask("4")
    me.step(3.9)
    assert len(me.answers) == 3
    me.step(0.2)
    assert me.answers[3:] == [("4", "no_responders")]
    me.ask("5")
    assert me.answers[4:] == [("5", "no_responders")], "at once"
    me.way.down()
    me.ask("6", timeout=500)
    me.ask("7", why="busy")
    assert me.answers[5:] == [("7", "busy")]
    me.step(4.1)
    me.ask("8")
    assert me.answers[6:] == [("6", "timeout"), ("8", "unavailable")]


def test_a_node_that_speaks_anew_ends_what_it_was_asked_and_is_told(me: Node) -> None:
    me.ask("r")
    ((node, _),) = me.asked()
    me.speakers[node] = PresenceSender(node, "2")
    me.meet(node, "/q/x")
    assert me.answers == [("r", "responder_gone")]
    assert (node, messages.Abandoned(["r"])) in me.sent
    assert me.gone == [node]


def test_what_another_node_asks_goes_to_the_own_responders_or_back(me: Node) -> None:
    request = messages.Requested("r", "a", 1, "/q/x", "", {}, 1000, 1, "")
    me.hear("a", request)
    assert me.routed == [request]
    me.others.route(messages.Requested("r", "a", 1, "/q/x", "", {}, 1000, 1, "", why="busy"))
    assert me.sent == [("a", messages.NotTaken("r", "busy"))], "not to a third"
    me.hear("a", messages.Abandoned(["r"]))
    assert me.over == ["r"]


def test_what_is_not_understood_is_logged_and_the_next_is_heard(me: Node, caplog: pytest.LogCaptureFixture) -> None:
    me.way.hear("a", b"\xc1")
    me.way.hear("a", b"")
    me.hear("a", messages.NodeResponds(["b", "1", 0, "b"]))
    me.hear("a", messages.NodeResponds([]))
    me.hear("a", messages.NodeResponds(["a", "1", 2, "d", ["/bad/**/x", 1]]))
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 5
    me.hear("a", messages.Abandoned(["r"]))
    assert me.over == ["r"]
