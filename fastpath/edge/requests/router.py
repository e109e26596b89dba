"""The first worker's part: it knows all responders of the node, and gives each request to the one whose turn it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ...core.requests.open_requests import GONE, failed
from ...core.requests.responders import Responders
from ...core.requests.timed import Timed
from ..node import messages
from ..runtime.runtime import Runtime
from .nodes import PASSES_MAX, RespondingOthers, responded

Key = tuple[int, int]
"""A responder: its worker, and its number there."""


class _Away(NamedTuple):
    """A request that a responder of another worker has taken, or soon will."""

    worker: int
    asked: messages.Requested


class Router:
    """``deliver`` and ``answered`` are this process' own part: it takes a request for a responder of its own, and a
    reply for a requester. ``over`` tells its responders that nobody waits for the requests of these names any more;
    ``parted`` that a node is gone, and what it asked is over, without a name all of them."""

    def __init__(
        self,
        runtime: Runtime,
        deliver: Callable[[messages.Requested], None],
        answered: Callable[[messages.Responded], None],
        over: Callable[[list[str]], None],
        parted: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._deliver = deliver
        self._answered = answered
        self._over = over
        self._node_parted = parted
        self._responders: Responders[Key] = Responders()
        self._away: Timed[_Away] = Timed()
        self.nodes = RespondingOthers(runtime, self.route, self.back, self._nobody_waits, self._node_gone)

    @property
    def responders(self) -> int:
        """Number of responders of the node."""
        return len(self._responders)

    def set(self, worker: int, number: int, patterns: list[str]) -> None:
        """Note which patterns a responder answers from now on."""
        before = self._responders.patterns((worker, number))
        self._responders.set((worker, number), patterns)
        self.nodes.answers(before, self._responders.patterns((worker, number)))

    def route(self, asked: messages.Requested) -> None:
        """Hand the request to whose turn it is of this node's responders; where there is nobody, to another node."""
        self._away.take(asked.name)
        passed = {(worker, number) for worker, number in asked.passed}
        chosen = self._responders.choose(asked.subject, passed) if len(passed) < PASSES_MAX else None
        if chosen is None:
            self.nodes.route(asked)
            return
        worker, number = chosen
        asked = msgspec.structs.replace(asked, responder=number)
        if worker:
            self._away.put(asked.name, _Away(worker, asked), self._time() + asked.timeout)
            self._runtime.workers.to_others(asked, worker)
        else:
            self._deliver(asked)

    def back(self, reply: messages.Responded) -> None:
        """Hand a reply to the process of whoever has asked."""
        if not reply.more:
            self._away.take(reply.name)
        if reply.node:
            self.nodes.reply(reply)
        elif reply.worker:
            self._runtime.workers.to_others(reply, reply.worker)
        else:
            self._answered(reply)

    def abandoned(self, names: list[str], by: int) -> None:
        """Tell the other workers, but the one that says it, and the other nodes, that nobody waits for these any
        more."""
        self.nodes.abandoned(names)
        workers = {away.worker for name in names if (away := self._away.take(name)) is not None}
        for worker in workers - {by}:
            self._runtime.workers.to_others(messages.Abandoned(names), worker)

    def parted(self, worker: int) -> None:
        """Note that a worker is gone, and its responders with it."""
        for key in self._responders.those():
            if key[0] == worker:
                self.set(*key, [])
        for name, away in self._away.items():
            if away.worker == worker and self._away.take(name) is not None:
                self.back(responded(away.asked, failed(GONE)))

    def expire(self) -> None:
        """Forget what is over: the responder's process, or the requester's, says so."""
        self._away.due(self._time())
        self.nodes.expire()

    def _nobody_waits(self, names: list[str]) -> None:
        """Abandon requests for which nobody waits any more on another node."""
        self._over(names)
        unknown = [name for name in names if self._away.get(name) is None]
        self.abandoned(names, 0)
        if unknown:  # a first worker before this one may have handed them on
            self._runtime.workers.to_others(messages.Abandoned(unknown))

    def _node_gone(self, node: str) -> None:
        """End what that node asked, without a name all others."""
        gone = [(name, away) for name, away in self._away.items() if away.asked.node and node in ("", away.asked.node)]
        self.abandoned([name for name, _ in gone], 0)
        for _, away in gone:
            self.back(responded(away.asked, failed(GONE)))
        self._node_parted(node)

    def _time(self) -> int:
        return int(self._runtime.loop.time() * 1000)
