"""Requests between nodes: what responders of the others answer, what was handed there, and what came from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from ...core.requests.open_requests import (
    GONE,
    NO_RESPONDERS,
    REASONS,
    TIMEOUT,
    UNAVAILABLE,
    GivenReply,
    failed,
)
from ...core.requests.responding_nodes import RespondingNodes
from ...core.requests.timed import Timed
from ..node import messages
from ..node.messenger import Lost, Send
from ..node.node_messages import BetweenNodes
from ..node.replication import ReplicatedTable
from ..runtime.runtime import Runtime

PASSES_MAX = 32
"""Responders of a node, and nodes, that one request is offered to, one after the other, until one takes it."""

HELD_MAX = 256
"""Requests that wait meanwhile, since nobody is known who answers them."""

NAMES = 1000
"""Names in one message, of the requests that nobody waits for."""


class _HandedOn(NamedTuple):
    """A request that a responder of another node has taken or soon will; or, without a ``node``, that is held until
    it is known who answers. ``passed``: the nodes that it was handed to; ``until`` when it is over (ms)."""

    node: str
    asked: messages.Requested
    passed: tuple[str, ...]
    until: int


class RespondingOthers:
    """The other nodes' part in the requests of this one, on its first worker.

    ``route`` finds a responder of this node for a request of another one, ``back`` hands a reply to a requester,
    ``over`` is told the names of requests of other nodes that nobody waits for, and ``gone`` that a node is gone,
    without a name all of them.
    """

    packets: tuple[type[messages.Packet], ...] = (
        messages.Requested,
        messages.Responded,
        messages.Abandoned,
        messages.NotTaken,
        messages.NodeResponds,
    )

    def __init__(
        self,
        runtime: Runtime,
        route: Callable[[messages.Requested], None],
        back: Callable[[messages.Responded], None],
        over: Callable[[list[str]], None],
        gone: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._route = route
        self._back = back
        self._over = over
        self._gone = gone
        self._deliver: Send | None = None
        self._answered: dict[str, int] = {}  # patterns of this node, and how many responders have each
        self._nodes = RespondingNodes()
        self._table = ReplicatedTable(
            runtime.loop,
            runtime.awake,
            runtime.broker.server,
            self._nodes,
            lambda packet: self._send("", messages.NodeResponds(packet)),
            self._ended,
        )
        self._away: Timed[_HandedOn] = Timed()
        self._held: dict[str, _HandedOn] = {}
        self._counts = dict.fromkeys(("requests_to_nodes", "requests_from_nodes", "request_messages_lost"), 0)

    def join(self, node: str, send: Send) -> None:
        """NodesPart: say and hear something."""
        self._deliver = send
        self._table.join(node)

    def leave(self) -> None:
        """NodesPart: say that this node ends."""
        self._table.leave()

    def figures(self) -> dict[str, float]:
        """Return the figures of this part."""
        return {
            **self._counts,
            "request_nodes": len(self._table.members),
            "request_patterns_left_out": self._nodes.left_out,
        }

    # What is asked and answered here

    def answers(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Note that a responder of this node answers other patterns than before."""
        for patterns, change in ((after, 1), (before, -1)):
            for pattern in patterns:
                count = self._answered.get(pattern, 0) + change
                if count:
                    self._answered[pattern] = count
                else:
                    del self._answered[pattern]
                if count + (change < 0) == 1:  # it came, or went
                    self._table.set(pattern, count)

    def route(self, asked: messages.Requested) -> None:
        """Hand a request that no responder of this node takes to another node, or say that there is nobody."""
        if asked.node:
            self._send(asked.node, messages.NotTaken(asked.name, asked.why))
        else:
            self._hand_on(asked, (), self._time() + asked.timeout)

    def reply(self, reply: messages.Responded) -> None:
        """Hand a reply to the node of whoever has asked."""

        def lost(maybe: bool) -> None:
            if not maybe:  # else the way has broken, and its end is told to all
                answer = failed(GONE)
                self._send(reply.node, messages.Responded(reply.name, reply.node, reply.worker, *answer))

        self._send(reply.node, reply, lost)

    def abandoned(self, names: Iterable[str]) -> None:
        """Abandon requests that nobody of this node waits for any more."""
        by_node: dict[str, list[str]] = {}
        for name in names:
            self._held.pop(name, None)
            away = self._away.take(name)
            if away is not None:
                by_node.setdefault(away.node, []).append(name)
        for node, theirs in by_node.items():
            self._abandon(node, theirs)

    def expire(self) -> None:
        """Forget, ten times a second, what is over, which the responder's process or the requester's says."""
        self._away.due(self._time())
        self._settle()

    def beat(self) -> None:
        """Show, once a second, that this node is there, and let go of those that are not."""
        self._table.beat()

    # The way of a request

    def _hand_on(self, asked: messages.Requested, passed: tuple[str, ...], until: int) -> None:
        if self._deliver is None:
            self._fail(asked, NO_RESPONDERS)
        elif until <= self._time():
            self._fail(asked, TIMEOUT)
        else:
            node = self._nodes.choose(asked.subject, passed) if len(passed) < PASSES_MAX else None
            if node is not None:
                self._hand_to(_HandedOn(node, asked, (*passed, node), until))
            elif self._table.learning and not asked.why and len(self._held) < HELD_MAX:
                self._held[asked.name] = _HandedOn("", asked, passed, until)
            else:
                self._fail(asked, UNAVAILABLE if self._table.learning or not self._table.up else NO_RESPONDERS)

    def _hand_to(self, away: _HandedOn) -> None:
        asked, node = away.asked, away.node
        self._away.put(asked.name, away, away.until)
        self._counts["requests_to_nodes"] += 1

        def lost(maybe: bool) -> None:
            lost = self._take(asked.name, node)
            if lost is not None and maybe:
                self._back(responded(asked, failed(GONE)))
            elif lost is not None:
                self._pass_on(lost, UNAVAILABLE)

        timeout = away.until - self._time()
        sent = msgspec.structs.replace(asked, node=self._table.node, responder=0, passed=[], timeout=timeout, why="")
        self._send(node, sent, lost)

    def _pass_on(self, away: _HandedOn, why: str) -> None:
        """Pass a request that the node has not taken on: perhaps another one does."""
        asked = msgspec.structs.replace(away.asked, why=why or away.asked.why)
        self._hand_on(asked, away.passed, away.until)

    def _fail(self, asked: messages.Requested, code: str) -> None:
        self._back(responded(asked, failed(asked.why if asked.why and code != TIMEOUT else code)))

    def _take(self, name: str, node: str) -> _HandedOn | None:
        """Take what was handed to that node, which waits no more."""
        away = self._away.get(name)
        return self._away.take(name) if away is not None and away.node == node else None

    # Who is there

    def _settle(self) -> None:
        """Go on with what was held when all others are known, or that takes too long."""
        if self._table.learning:
            return
        self._table.settled()
        held, self._held = self._held, {}
        for one in held.values():
            self._hand_on(one.asked, one.passed, one.until)

    def up(self, nodes: int) -> None:
        """NodesPart: say what this node answers, and ask the others."""
        self._table.begin(nodes)

    def down(self) -> None:
        """NodesPart: all that is under way between this node and others is over."""
        self._table.interrupt()
        self._gone("")

    def missing(self, node: str) -> None:
        """NodesPart: the node is gone, or comes anew."""
        self._table.missing(node)

    def hear(self, node: str, packet: BetweenNodes) -> None:
        """NodesPart: a request, a reply, or something about them."""
        try:
            self._heard(node, packet)
        finally:
            if self._held:
                self._settle()

    def _heard(self, node: str, packet: BetweenNodes) -> None:
        match packet:
            case messages.Requested():
                self._counts["requests_from_nodes"] += 1
                self._route(msgspec.structs.replace(packet, node=node))
            case messages.Responded():
                away = self._away.get(packet.name)
                if away is None or away.node == node:
                    if not packet.more:
                        self._away.take(packet.name)
                    self._back(msgspec.structs.replace(packet, node=""))
            case messages.Abandoned():
                self._over(packet.names)
            case messages.NotTaken():
                away = self._take(packet.name, node)
                if away is not None:
                    known = not packet.why or packet.why in REASONS  # or it is of another version
                    self._pass_on(away, packet.why if known else UNAVAILABLE)
            case messages.NodeResponds():
                self._table.hear(node, packet.packet)

    def _ended(self, node: str) -> None:
        """End what was under way to a node and from it: the node is gone, or that is lost."""
        self._nodes.forget(node)
        names = [name for name, away in self._away.items() if away.node == node]
        for name in names:
            away = self._away.take(name)
            if away is not None:
                self._back(responded(away.asked, failed(GONE)))
        self._abandon(node, names)
        self._gone(node)

    # Sending

    def _abandon(self, node: str, names: list[str]) -> None:
        for at in range(0, len(names), NAMES):
            self._send(node, messages.Abandoned(names[at : at + NAMES]))

    def _send(self, node: str, packet: messages.Packet, lost: Lost | None = None) -> None:
        def failing(maybe: bool) -> None:
            self._counts["request_messages_lost"] += 1
            if lost is not None:
                lost(maybe)

        if self._deliver is not None:
            self._deliver(node, packet, failing)

    def _time(self) -> int:
        """Return the loop's clock in ms."""
        return int(self._runtime.loop.time() * 1000)


def responded(asked: messages.Requested, answer: GivenReply) -> messages.Responded:
    """Return a reply to the request, on its way back."""
    return messages.Responded(asked.name, asked.node, asked.worker, *answer)
