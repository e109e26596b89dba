"""The limits that need a clock, the process or all workers: rates, places by user and address, memory."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ...core.broker.observers import ConnectionListener
from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.protocol.errors import Close
from ...core.sessions.client_limits import ClientLimits
from ...core.sessions.connection_quotas import PER_USER, ConnectionQuotas
from ...core.sessions.rate_limits import RateLimits
from ...core.telemetry.counters import LIMITS, Counters
from ...settings import Settings
from ..node import messages
from ..runtime.component import Offers
from ..runtime.runtime import Runtime

try:
    import resource
except ImportError:  # not on Windows
    _HAS_RESOURCE = False
else:
    _HAS_RESOURCE = True

if TYPE_CHECKING:
    from ...core.delivery.audience import Group, Topic
    from ...core.protocol.messages import Result, Subscribe

MEMORY_BACK = 0.95
"""Share of ``memory_bytes_max`` under which new load is taken again."""

TRIM_SECONDS = 3
"""Seconds after which memory that is free is given back while too much is used: it takes some ms."""

SEATS_PACKET = 1000
"""Connections that are told in one packet when the first worker is a new one."""

_CLOSES = {
    "handshake": "handshake_timeout",
    "idle": "idle",
    "ping": "ping_timeout",
    "outbox": "slow_consumer",
    "errors": "too_many_errors",
}
"""Limits whose excess is told by a close code."""

log = logging.getLogger("fastpath.limits")


class CountedPublisher(Protocol):
    """A publisher's connection, as far as it matters here."""

    def hold(self, held: bool, why: int) -> None:
        """Handle nothing more of what the publisher sends, or go on."""


def limited(counters: Counters) -> dict[str, float]:
    """Return how often each limit was met, as figures."""
    counts = {name: counters.limited.get(name, 0) + counters.closes.get(_CLOSES.get(name, ""), 0) for name in LIMITS}
    counts["message"] += counters.closes.get("too_big", 0)
    return {f"limited_{name}": count for name, count in counts.items()}


def make_guard(settings: Settings, counters: Counters) -> ClientLimits | None:
    """Return the limits on what each connection says over time; None where none of them is set."""
    if not (settings.commands_per_second_max or settings.publications_per_second_max or settings.idle_seconds):
        return None
    rates: RateLimits[object] = RateLimits(settings.commands_per_second_max, settings.publications_per_second_max)
    return ClientLimits(rates, settings.idle_seconds * 1000, counters)


class Quotas(ConnectionListener):
    """Keeps the limits of one process that are set."""

    def __init__(self, runtime: Runtime) -> None:
        settings = runtime.settings
        self._runtime = runtime
        self._rates = runtime.sessions.publish_rates.rates
        self._memory_bytes_max = settings.memory_bytes_max
        self._trim_next = 0.0
        self._seats = ConnectionQuotas(settings.connections_per_user_max, settings.connections_per_address_max)
        self._seated: dict[int, Client] = {}
        seated = settings.connections_per_user_max or settings.connections_per_address_max
        self.offers = Offers(
            messages={
                messages.Memory: lambda worker, told: self._set_full(told.full),
                messages.Seats: self._told_seats,
                messages.Unseat: lambda worker, told: self._seats.leave((worker, told.number)),
                messages.Unseated: lambda worker, told: self._unseat(told.number, told.limit),
            },
            observes=self if seated else None,
            linked=self._linked,
            parted=self._seats.forget,
            on_grid=self.on_grid,
            on_second=self.on_second,
        )

    # Time

    def on_grid(self, moment: int) -> None:
        """Let whoever has paused long enough go on, ten times a second."""
        for who in self._rates.due(moment) if self._rates.pausing else ():
            if isinstance(who, Client):
                who.alive = True  # its answer to a ping may wait unread
                who.link.hold(PauseReason.RATE, False)
            else:
                cast(CountedPublisher, who).hold(False, PauseReason.RATE)

    def on_second(self, moment: int) -> None:
        """Look at what the process uses, and forget what need not be remembered, once a second."""
        self._runtime.sessions.publish_rates.sweep(moment)
        if self._memory_bytes_max and not self._runtime.workers.follows:
            used = resident_bytes() + sum(
                int(other.get("memory_bytes", 0)) for other in self._runtime.workers.figures()
            )
            full = self._runtime.broker.admission.full
            if full and used < self._memory_bytes_max * MEMORY_BACK:
                log.warning("memory: %d MiB are used, new load is taken again", used >> 20)
                self._set_full(False)
            elif used > self._memory_bytes_max:
                if not full:
                    log.warning("memory: %d MiB are used, more than memory_bytes_max: new load is refused", used >> 20)
                self._set_full(True)
            # Again and again: a worker may be new, or have been told by a first worker that is no more.
            self._runtime.workers.to_others(messages.Memory(self._runtime.broker.admission.full))

    def _set_full(self, full: bool) -> None:
        self._runtime.broker.admission.fill(full)
        moment = self._runtime.loop.time()
        if full and moment >= self._trim_next:
            self._trim_next = moment + TRIM_SECONDS
            _trim()

    # Places, by user and address

    def connected(self, client: Client) -> None:
        """Ask for a place for a client."""
        self._seated[client.number] = client
        self._take(client)

    def renewed(self, client: Client, before: str) -> None:
        """Ask for a place for the user that the client is now, if it is another one."""
        if client.principal.user != before:
            self._take(client)

    def disconnected(self, client: Client) -> None:
        """Free the client's place."""
        if self._seated.pop(client.number, None) is not None:
            if self._runtime.workers.follows:
                self._runtime.workers.to_first(messages.Unseat(client.number))
            else:
                self._seats.leave((0, client.number))

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """Do nothing, as a subscription takes no place."""

    def subscribed_together(self, group: Group, topic: Topic, result: Result) -> None:
        """Do nothing: no quota counts subscriptions."""

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """Do nothing: no quota counts subscriptions."""

    def unsubscribed_together(self, group: Group, topics: Sequence[Topic], why: str) -> None:
        """Do nothing: no quota counts subscriptions."""

    def _take(self, client: Client) -> None:
        """Ask for a place: here, or of the first worker, which tells when there is none. The newest goes then."""
        if self._runtime.workers.follows:
            self._runtime.workers.to_first(messages.Seats([_seat(client)]))
            return
        limit = self._seats.take((0, client.number), client.principal.user, client.address)
        if limit:
            self._runtime.loop.call_soon(self._unseat, client.number, limit)

    def _told_seats(self, worker: int, told: messages.Seats) -> None:
        """Give places to clients of another worker, on the first one."""
        for number, user, address in told.seats:
            limit = self._seats.take((worker, number), user, address)
            if limit:
                self._runtime.workers.to_others(messages.Unseated(number, limit), worker)

    def _linked(self, worker: int) -> None:
        """Ask a new first worker, which knows of nobody yet, for the places of all."""
        if worker:
            return
        seated = [_seat(client) for client in self._seated.values()]
        for start in range(0, len(seated), SEATS_PACKET):
            self._runtime.workers.to_first(messages.Seats(seated[start : start + SEATS_PACKET]))

    def _unseat(self, number: int, limit: str) -> None:
        """Close a client that has got no place, and is to come back later."""
        client = self._seated.get(number)
        if client is not None:
            self._runtime.broker.counters.limit(limit)
            whose = "this user" if limit == PER_USER else "this address"
            most = getattr(self._runtime.settings, f"{limit}_max")
            reason = f"{Close.OVERLOADED.label}: {whose} has {most} connections already ({limit}_max)"
            client.link.close(Close.OVERLOADED, reason)


def _seat(client: Client) -> tuple[int, str, str]:
    return client.number, client.principal.user, client.address


def resident_bytes() -> int:
    """Return the memory of this process in use now, or at its most where /proc is missing; 0 where nothing tells."""
    if not _HAS_RESOURCE:
        return 0
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if os.uname().sysname == "Darwin" else 1024)


def _trim() -> None:
    """Have the C library give back what is free: it keeps what it got, and would look full for ever."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):  # another C library, which decides by itself
        pass
