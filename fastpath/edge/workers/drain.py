"""Send everybody elsewhere at a bounded rate: before this process stops, or because an operator asked for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Protocol

from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import Close, InvalidMessage
from ...core.protocol.messages import Notice
from ..node import messages
from ..runtime.component import ControlPeer, Offers
from ..runtime.runtime import Runtime

STEP_SECONDS = 0.1
"""Seconds between two groups that are told to go. They are closed a step later: what they had sent before is answered
then."""

HEAR_SECONDS = 2
"""Seconds that those who were told may take to hear it and go, once all have been told."""

STOPS = "drain: the server is stopping; reconnect"
EMPTIES = "drain: the server sends its clients elsewhere; reconnect"

log = logging.getLogger("fastpath.drain")

Servers = Sequence[tuple[str, int]]
"""Addresses where clients are to go, each with its weight (0 to 100)."""


class Entrance(Protocol):
    """The ports for clients and publishers (edge/listen/listeners.py)."""

    def pause(self) -> None:
        """Stop accepting connections."""

    def resume(self) -> None:
        """Accept connections again."""


class Drainer:
    """The draining of one process; ``share`` processes have the rate together, and ``connections``
    tells how many clients there are in all of them.

    The ports for clients and publishers close first. Then each client has its turn: what waits for it goes out, it is
    told where to go (protocol.md 4.11), nothing more is read from it, and a step later it is closed with 4000. A client
    goes as soon as it is told: to tell all at once would send all at once, and so make the stampede that this avoids.
    """

    def __init__(self, runtime: Runtime, ports: Entrance, connections: Callable[[], float], share: int = 1) -> None:
        self._runtime = runtime
        self._ports = ports
        self._connections = connections
        self._share = share
        self._per_second = runtime.settings.drain_per_second
        self._servers: Servers = runtime.settings.drain_servers
        self._told: list[Client] = []
        self._turns = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.active = False
        """True while newcomers are refused and clients sent elsewhere."""
        self._last: messages.Drain | messages.Undrain | None = None  # what the other workers were told
        self.offers = Offers(
            verbs={"drain": self._ask_begin, "undrain": self._ask_cancel},
            messages={
                messages.Drain: lambda worker, drain: self.begin(drain.per_second, drain.servers),
                messages.Undrain: lambda worker, drain: self.cancel(),
            },
            linked=self._linked,
            drain=self,
        )

    def _ask_begin(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        """Begin to drain: ``per_second`` clients, to ``servers``, both optional."""
        del peer
        servers = [(str(url), int(weight)) for url, weight in arguments.get("servers") or ()]
        if any(not 0 <= weight <= 100 for _, weight in servers):
            raise InvalidMessage("invalid", "a weight is 0 to 100")
        self.begin(max(int(arguments.get("per_second") or 0), 0), servers)
        return {"clients": int(self._connections())}

    def _ask_cancel(self, peer: ControlPeer, arguments: dict[str, Any]) -> dict[str, Any]:
        del peer, arguments
        self.cancel()
        return {"clients": int(self._connections())}

    @property
    def servers(self) -> Servers:
        """Addresses where clients may go beside this node: those of the drain while there is one, else those of the
        settings."""
        return self._servers if self.active else self._runtime.settings.drain_servers

    def begin(self, per_second: int = 0, servers: Servers = ()) -> None:
        """Refuse newcomers and send clients elsewhere; while that goes on, another rate or other servers take force.

        0 and an empty list stand for the settings drain_per_second and servers. Publishers are told to reconnect
        when their batches in flight have been acknowledged.
        """
        settings = self._runtime.settings
        self._per_second, self._servers = per_second or settings.drain_per_second, servers or settings.drain_servers
        self._pass_on(messages.Drain(self._per_second, list(self._servers)))
        self._begin()

    def _begin(self) -> None:
        if self.active:
            return
        log.info("draining %d clients, %d a second", len(self._runtime.sessions.clients), self._per_second)
        self.active = True
        self._ports.pause()
        self._step()

    def cancel(self) -> None:
        """Open the ports again; who has not been told to go stays."""
        self._pass_on(messages.Undrain())
        if not self.active or self._stopping:
            return
        log.info("the drain was called off: %d clients stay", len(self._runtime.sessions.clients) - len(self._told))
        self._end_told()
        self._rest()
        self._ports.resume()

    def _pass_on(self, told: messages.Drain | messages.Undrain) -> None:
        """Pass a drain on to the others, also those that come later; on the first of several workers."""
        self._last = told
        self._runtime.workers.to_others(told)

    def _linked(self, worker: int) -> None:
        if self._last is not None:
            self._runtime.workers.to_others(self._last, worker)

    async def turns(self, signals: Callable[[], int], others: Callable[[], int]) -> None:
        """Send clients elsewhere in turns as this process stops, for ``drain_seconds``, if there is somewhere to go.

        ``others`` counts the workers that still need this one: they are waited for. ``signals`` counts how often this
        process was told to stop; once more cuts it short.
        """
        clients, began = self._runtime.sessions.clients, signals()
        self._stopping = True
        if (not clients and not others()) or (not self._servers and not self.active):
            return
        self._begin()
        seconds = self._runtime.settings.drain_seconds
        if len(clients) > self._rate * seconds:
            log.warning("some will go at once after %d s: see FASTPATH_DRAIN_SECONDS", seconds)
        await self._until(lambda: (not clients and not others()) or signals() > began, seconds)

    async def end(self, signals: Callable[[], int], others: Callable[[], int]) -> None:
        """Send all that are left elsewhere at once, and wait a little for them, and for the others, to go."""
        runtime, began = self._runtime, signals()
        self._stopping = True
        log.info("stopping: %d clients", len(runtime.sessions.clients))
        self._ports.pause()
        self._rest()
        for publisher in list(runtime.publisher_connections):
            publisher.leave()
        runtime.broker.finish()  # what is pending, or collected, still counts
        self._end_told()
        for client in list(runtime.sessions.clients):
            self._close(client, STOPS)
        await self._until(
            lambda: not runtime.connections + len(runtime.publisher_connections) + others() or signals() > began,
            HEAR_SECONDS,
        )

    @property
    def _rate(self) -> float:
        """Clients a second, of this process alone."""
        return max(self._per_second / self._share, 1)

    def _step(self) -> None:
        self._timer = self._runtime.loop.call_later(STEP_SECONDS, self._step)
        runtime = self._runtime
        for publisher in list(runtime.publisher_connections):
            publisher.leave()
        gone = set(self._told)  # the sessions hear of them in the next turn of the loop
        self._end_told()
        self._turns = min(self._turns + self._rate * STEP_SECONDS, self._rate)
        staying = (client for client in runtime.sessions.clients if client not in gone)
        self._told = list(islice(staying, int(self._turns)))
        self._turns -= len(self._told)
        notice = Notice(code="drain", text=STOPS if self._stopping else EMPTIES, servers=list(self._servers))
        for client in self._told:
            runtime.broker.level(client)  # what came before is sent before
            if client.greeted:
                runtime.broker.send(client, notice)
            client.link.hold(PauseReason.DRAINING, True)
        runtime.end()

    def _end_told(self) -> None:
        told, self._told = self._told, []
        for client in told:
            self._runtime.broker.level(client)
            self._close(client, STOPS if self._stopping else EMPTIES)

    def _close(self, client: Client, reason: str) -> None:
        client.link.close(Close.DRAIN, reason)

    def _rest(self) -> None:
        """End the turns."""
        self.active = False
        self._turns = 0.0
        if self._timer is not None:
            self._timer.cancel()

    async def _until(self, over: Callable[[], bool], seconds: float) -> None:
        deadline = self._runtime.loop.time() + seconds
        while not over() and self._runtime.loop.time() < deadline:  # noqa: ASYNC110 - once in the life of a process
            await asyncio.sleep(0.02)
