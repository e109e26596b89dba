"""Requests between nodes: what responders of the others answer, what was handed there, and what came from there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from ...core.presence.replication import PresenceReceiver, PresenceSender
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
from ...engine.base import Messenger
from ..node import messages
from ..runtime.runtime import Runtime

PASSES_MAX = 32
"""Responders of a node, and nodes, that one request is offered to, one after the other, until one takes it."""

SILENCE_MS = 4000
"""Another node that is silent for so long is gone; each says something once a second."""

LEARN_MS = SILENCE_MS
"""Milliseconds that this node waits to hear of all others: when it has come, or one of them has come anew or is out of
reach, or the way to them has broken."""

RELEARN_SECONDS = 1.0
"""Seconds that a first worker in the place of another hears its own node's responders before it speaks of them."""

HELD_MAX = 256
"""Requests that wait meanwhile, since nobody is known who answers them."""

TURN_SECONDS = 0.005
"""Seconds within which what responders say is told together."""

PACKETS = 5
"""Told in one turn."""

NAMES = 1000
"""Names in one message, of the requests that nobody waits for."""

log = logging.getLogger("fastpath.roster")


class _HandedOn(NamedTuple):
    """A request that a responder of another node has taken or soon will; or, without a ``node``, that is held until
    it is known who answers. ``passed``: the nodes that it was handed to; ``until`` when it is over (ms)."""

    node: str
    asked: messages.Requested
    passed: tuple[str, ...]
    until: int


class OtherNodes:
    """The other nodes' part in the requests of this one, on its first worker.

    ``route`` finds a responder of this node for a request of another one, ``back`` hands a reply to a requester,
    ``over`` is told the names of requests of other nodes that nobody waits for, and ``gone`` that a node is gone,
    without a name all of them.

    A link between two nodes that breaks, on either side, ends all that was under way between them: the node whose
    messenger it was speaks with another ``life`` from then on.
    """

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
        self._name = ""
        self._messenger: Messenger | None = None
        self._starting: asyncio.TimerHandle | None = None
        self._answered: dict[str, int] = {}  # patterns of this node, and how many responders have each
        self._speaker: PresenceSender | None = None  # while the others can hear it
        self._lives = 0
        self._nodes = RespondingNodes()
        self._receiver = PresenceReceiver(self._nodes, SILENCE_MS, self._ask, self._ended)
        self._away: Timed[_HandedOn] = Timed()
        self._held: dict[str, _HandedOn] = {}
        self._expected = self._known = 0  # other nodes that are there, and that were before the way to them broke
        self._learnt_at = 0
        self._scheduled = False
        self._counts = dict.fromkeys(("requests_to_nodes", "requests_from_nodes", "request_messages_lost"), 0)

    def join(self, node: str, messenger: Messenger, learns: bool) -> None:
        """NodesListener: say and hear something, after a while where this process ``learns`` first."""
        self._name, self._messenger = node, messenger
        self._learn()
        self._starting = self._runtime.loop.call_later(RELEARN_SECONDS * learns, messenger.start)

    async def leave(self) -> None:
        """NodesListener: say that this node ends."""
        if self._starting is not None:
            self._starting.cancel()
        if self._messenger is not None:
            if self._speaker is not None:
                self._send("", messages.NodeResponds(self._speaker.bye()))
            await self._messenger.close()

    def figures(self) -> dict[str, float]:
        """Return the figures of this part."""
        return {
            **self._counts,
            "request_nodes": self._receiver.members,
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
                if count + (change < 0) == 1 and self._speaker is not None:  # it came, or went
                    self._speaker.set(pattern, count)
        self._wake()

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
        if self._speaker is not None:
            self._send("", messages.NodeResponds(self._speaker.beat()))
            self._receiver.expire(self._awake())

    # The way of a request

    def _hand_on(self, asked: messages.Requested, passed: tuple[str, ...], until: int) -> None:
        if self._messenger is None:
            self._fail(asked, NO_RESPONDERS)
        elif until <= self._time():
            self._fail(asked, TIMEOUT)
        else:
            node = self._nodes.choose(asked.subject, passed) if len(passed) < PASSES_MAX else None
            if node is not None:
                self._hand_to(_HandedOn(node, asked, (*passed, node), until))
            elif self._learning and not asked.why and len(self._held) < HELD_MAX:
                self._held[asked.name] = _HandedOn("", asked, passed, until)
            else:
                self._fail(asked, UNAVAILABLE if self._learning or self._speaker is None else NO_RESPONDERS)

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
        sent = msgspec.structs.replace(asked, node=self._name, responder=0, passed=[], timeout=timeout, why="")
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

    @property
    def _learning(self) -> bool:
        """True while a node may be there of which it is not known what it answers."""
        others = max(self._expected, self._receiver.members)
        missing = self._speaker is None or self._receiver.synced < others
        return missing and self._time() < self._learnt_at

    def _learn(self) -> None:
        self._learnt_at = self._time() + LEARN_MS

    def _settle(self) -> None:
        """Go on with what was held when all others are known, or that takes too long."""
        if self._learning:
            return
        if self._speaker is not None:
            self._known = self._expected = 0
        held, self._held = self._held, {}
        for one in held.values():
            self._hand_on(one.asked, one.passed, one.until)

    def up(self, nodes: int) -> None:
        """NodeListener: say what this node answers, and ask the others."""
        self._lives += 1
        life = f"{self._runtime.broker.server}.{self._lives}"
        self._speaker = PresenceSender(self._name, life, dict.fromkeys(self._answered, 1))
        self._speaker.ask()
        self._expected = max(nodes - 1, self._known)
        self._learn()
        self._send("", messages.NodeResponds(["?", "*"]))
        self._wake()
        self._runtime.end()

    def down(self) -> None:
        """NodeListener: all that is under way between this node and others is over."""
        self._speaker = None
        self._known = max(self._known, self._receiver.members)
        self._receiver.clear()
        self._gone("")
        self._learn()
        self._runtime.end()

    def missing(self, node: str) -> None:
        """NodeListener: the node is gone, or comes anew: then it is soon there."""
        self._expected = max(self._expected, self._receiver.members)
        self._receiver.leave(node)
        self._learn()
        self._runtime.end()

    def hear(self, node: str, data: bytes) -> None:
        """NodeListener: a request, a reply, or something about them."""
        try:
            self._heard(node, messages.decode_from_node(data))
        except (msgspec.MsgspecError, ValueError) as error:
            log.error("the node %s is not understood: %s", node, error)
        if self._held:
            self._settle()
        self._runtime.end()

    def _heard(self, node: str, packet: messages.BetweenNodes) -> None:
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
            case messages.NodeResponds(["?", asked]):
                if asked in ("*", self._name) and self._speaker is not None:
                    self._speaker.ask()
                    self._wake()
            case messages.NodeResponds([member, *_]) if member == node:
                if self._receiver.hear(packet.packet, self._awake()):
                    self._learn()
            case _:
                raise ValueError("it speaks for another one")

    def _ask(self, node: str) -> None:
        self._send("", messages.NodeResponds(["?", node]))

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

    def _wake(self) -> None:
        if not self._scheduled and self._speaker is not None and self._speaker.busy:
            self._scheduled = True
            self._runtime.loop.call_later(TURN_SECONDS, self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        for _ in range(PACKETS):
            packet = self._speaker.next() if self._speaker is not None else None
            if packet is not None:
                self._send("", messages.NodeResponds(packet))
        self._wake()

    def _abandon(self, node: str, names: list[str]) -> None:
        for at in range(0, len(names), NAMES):
            self._send(node, messages.Abandoned(names[at : at + NAMES]))

    def _send(self, node: str, packet: messages.Packet, lost: Callable[[bool], None] | None = None) -> None:
        def failing(maybe: bool) -> None:
            self._counts["request_messages_lost"] += 1
            if lost is not None:
                lost(maybe)

        if self._messenger is not None:
            self._messenger.send(node, messages.encode_for_node(packet), failing)

    def _time(self) -> int:
        """Return the loop's clock in ms."""
        return int(self._runtime.loop.time() * 1000)

    def _awake(self) -> int:
        """Return ms while this loop runs: what others said while it stood still waits unread, and ends nobody here."""
        return int(self._runtime.awake.time * 1000)


def responded(asked: messages.Requested, answer: GivenReply) -> messages.Responded:
    """Return a reply to the request, on its way back."""
    return messages.Responded(asked.name, asked.node, asked.worker, *answer)
