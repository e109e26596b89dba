"""The attempts to connect: which server, after how long, and what the program is told; pure (features.md D3).

A round tries servers without a pause between them, each once, until one answers. When none does the round has failed:
after a pause the next begins. A connection that is lost is followed by a pause and a round too.
"""

from __future__ import annotations

from collections import deque
from math import inf

from ..backoff import Backoff
from ..message import Status
from ..servers import ServerList

RATE_SECONDS = 180
"""Seconds in which ``reconnects_max`` reconnections are no cause for concern."""


HURRY_SECONDS = 5
"""Seconds at least between two waits that are cut short, however much the program asks for meanwhile."""


class Attempts:
    """The attempts of one client, round by round: ``begin()`` a round; for each attempt ``failed()``, or ``stood()``
    and at the end ``leave()`` and ``lost()``.

    Times are seconds of one clock. ``url`` is the server that is tried or connected.
    """

    def __init__(
        self,
        servers: ServerList,
        backoff: Backoff,
        *,
        down_after: int = 1,
        reconnects_max: int = 15,
        steady_seconds: float = 60,
    ) -> None:
        self.servers = servers
        self.url = ""
        self._backoff = backoff
        self._down_after = down_after
        self._reconnects_max = reconnects_max
        self._steady = steady_seconds
        self._stood_at = 0.0
        self._ever = False
        self._failed_rounds = 0
        self._recent: deque[float] = deque()
        self._too_many = False
        self._hurried_at = -inf

    def hurry(self, now: float, at: float) -> float:
        """Return when the next round begins that was to begin ``at``: the program needs it now."""
        soon = max(now, self._hurried_at + HURRY_SECONDS)
        if soon >= at:
            return at
        self._hurried_at = soon
        return soon

    def begin(self) -> str:
        """Begin a round and return its first address."""
        self.servers.new_round()
        self.url = self.servers.pick()
        return self.url

    def stood(self, now: float) -> list[Status]:
        """Note that the server has answered; return what to tell."""
        self._stood_at = now
        self._failed_rounds = 0
        if not self._ever:
            self._ever = True
            return []
        recent = self._recent
        recent.append(now)
        while recent[0] <= now - RATE_SECONDS:
            recent.popleft()
        before, self._too_many = self._too_many, len(recent) > self._reconnects_max
        if before or not self._too_many:
            return []
        reason = f"{len(recent)} reconnections in {RATE_SECONDS // 60} minutes, over {self._reconnects_max}"
        return [Status(name="reconnect_rate_exceeded", reason=reason, count=len(recent))]

    def failed(self) -> str:
        """Note that the attempt came to nothing; return the next address of the round, empty when the round has
        failed."""
        self.servers.fail(self.url)
        self.url = self.servers.pick()
        return self.url

    def round_failed(self) -> tuple[float, list[Status]]:
        """Note that no server answered; return the seconds until the next round, and what to tell."""
        self.servers.forgive()
        self._failed_rounds += 1
        told = []
        if self._failed_rounds == self._down_after:
            told = [Status(name="down", reason="no server answers", count=self._failed_rounds)]
        return self._backoff.next_seconds(), told

    def leave(self, now: float) -> bool:
        """Note that the connection ends, or is to end; return True if there is another server to go to at once."""
        if now - self._stood_at >= self._steady:
            self._backoff.reset()
            self.servers.forgive()
        return self.servers.lose(self.url)

    def lost(self) -> float:
        """Return the seconds until the next round after a lost connection."""
        return self._backoff.next_seconds()

    def reset(self) -> None:
        """Begin the pauses anew, as the program asks for a connection at once."""
        self._backoff.reset()
