"""What one client may ask of the server over time: rates, and how long it may do nothing (docs/operate/limits.md)."""

from __future__ import annotations

from collections.abc import Callable

from ..delivery.audience import Client
from ..delivery.link import PauseReason
from ..telemetry.counters import Counters
from .rate_limits import RateLimits

Talker = object
"""A client, or a publisher's connection: both have the same rates."""


class ClientLimits:
    """The limits by time of all connections; exists only while one of them is set, so that nothing else pays."""

    def __init__(self, rates: RateLimits[Talker], idle_ms: int, counters: Counters) -> None:
        self.rates = rates
        self._busy: list[Callable[[Client], bool]] = []
        self._idle_ms = idle_ms
        self._counters = counters
        self._quiet: dict[Client, int] = {}

    def spare(self, busy: Callable[[Client], bool]) -> None:
        """Take no client for idle that is ``busy``: without subscriptions it waits for something else, such as interest
        in what it publishes, or a request."""
        self._busy.append(busy)

    def said(self, client: Client, publications: int, now: int) -> None:
        """Count what the client said: nothing more is read from it when that was too much at a time."""
        self._quiet.pop(client, None)
        if self.spend(client, 1, publications, now):
            client.link.hold(PauseReason.RATE, True)

    def spend(self, who: Talker, commands: int, publications: int, now: int) -> bool:
        """Count what was said; whether ``who`` has to pause. It goes on when ``rates.due`` says so."""
        limit = self.rates.spend(who, commands, publications, now)
        if limit:
            self._counters.limit(limit)
        return bool(limit)

    def idle(self, client: Client, now: int) -> bool:
        """Return whether the client has done nothing, and wanted nothing, for too long; each client is asked about now
        and then."""
        if not self._idle_ms:
            return False
        if client.count or any(busy(client) for busy in self._busy):
            self._quiet.pop(client, None)
            return False
        return now - self._quiet.setdefault(client, now) >= self._idle_ms

    def forget(self, who: Talker) -> None:
        """Forget a connection that is gone."""
        self.rates.forget(who)
        if isinstance(who, Client):
            self._quiet.pop(who, None)
