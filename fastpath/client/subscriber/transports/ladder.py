"""Which transport a client tries at an address: the first that works, from the fastest down; pure.

A rung is blamed only when a lower one then works: where nothing answers at all the server is away, and the next round
begins where this one did. What worked is remembered for the address, and the rungs above it are tried again later. The
JavaScript client has the same rules (connection/ladder.js); tests/behaviours/transports.json holds both to them. Times
are seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Literal, NamedTuple, Protocol

from fastpath.core.protocol.errors import Close

from ...options import TRANSPORTS, Transport

Failure = Literal["unreachable", "unanswered", "refused", "silent", "closed"]
"""Name for how an attempt ended before the server's first frame.

``unreachable``: nobody is there. ``unanswered``: it did not open in time. ``refused``: something answers, but not as
this transport asks. ``silent``: it opened, and no frame came in time. ``closed``: it opened and was closed.
"""

UP_SECONDS_MAX = 3600
"""Seconds at most between two tries upwards, whatever came of those before."""

ENDS_BEFORE = 2
"""Number of abnormal ends in a row that are the transport's, the last before the server's first frame."""
ENDS_AFTER = 3
"""Number of abnormal ends in a row that are the transport's, each soon after the connection stood."""


class RememberedTransport(NamedTuple):
    """Transport that worked at an address, until when it is tried first, and how many tries upwards have failed."""

    transport: str
    until: float
    tries: int = 0


class TransportMemory(Protocol):
    """Store for what is remembered of addresses."""

    def load(self, url: str) -> RememberedTransport | None:
        """Return what is remembered of an address."""

    def save(self, url: str, remembered: RememberedTransport | None) -> None:
        """Remember it; None forgets it."""


class _Ends(NamedTuple):
    """Abnormal ends in a row, on one rung at one address."""

    where: tuple[str, int] = ("", 0)
    number: int = 0


class Ladder:
    """The rungs at each address: ``begin()`` for each address; then ``failed()``, or ``stood()`` and at the end
    ``lost()``."""

    def __init__(
        self, transports: Iterable[str], memory: TransportMemory, *, up_seconds: float = 600, steady_seconds: float = 60
    ) -> None:
        wished = list(transports)
        self.probe_at: float | None = None
        """Time at which a rung above is to be tried while the connection stands."""
        self.why: tuple[int, str] = (0, "")
        """Code and reason for which the first rung failed, or what the server said."""
        self._transports = [name for name in TRANSPORTS if name in wished]
        self._memory = memory
        self._up = up_seconds
        self._steady = steady_seconds
        self._url = ""
        self._index = 0
        self._stood_at = 0.0
        self._probed = 0
        self._ends = _Ends()

    @property
    def transport(self) -> Transport:
        """The transport that is tried, or carries the connection."""
        return self._transports[self._index]

    @property
    def has_lower(self) -> bool:
        """True when there is a transport below it."""
        return self._index + 1 < len(self._transports)

    def begin(self, url: str, now: float) -> None:
        """Begin to try an address."""
        index, until, _ = self._recall(url)
        self._url = url
        self._index = index if index > 0 and now < until else 0
        self.why = (0, "")
        if self._ends.where == (url, self._index) and self._ends.number >= ENDS_AFTER and self.has_lower:
            self._index += 1

    def failed(self, how: Failure, code: int, reason: str, more: bool) -> bool:
        """Note that the attempt failed; return True if the address is to be tried at once by the next transport.

        ``more``: another server is left to try.
        """
        network = how != "closed" or _is_networks(code)
        if not network or not self.why[0]:
            self.why = code, reason
        if how == "unreachable" or not network:
            return False
        if how == "unanswered" and more:
            return False  # it may be a server that hangs: it is passed over
        if how == "closed" and self._ended() < ENDS_BEFORE:
            return False
        if self.has_lower:
            self._index += 1
            return True
        # Neither what was remembered nor anything below it: the next attempt begins at the top.
        self._memory.save(self._url, None)
        self._ends = _Ends()
        return False

    def stood(self, now: float) -> None:
        """Note that the server has answered."""
        self._stood_at = now
        if self._ends.where != (self._url, self._index):
            self._ends = _Ends()
        index, until, tries = self._recall(self._url)
        if self._index == 0:
            if index > 0:
                self._memory.save(self._url, None)
            self.probe_at = None
        elif index == self._index and now < until:
            self.probe_at = until
        else:
            self._remember(now, tries + 1 if index > 0 else 0)

    def lost(self, code: int, now: float) -> None:
        """Note that the connection that stood was lost."""
        if _is_networks(code) and code != Close.TOO_BIG and now - self._stood_at < self._steady:
            self._ended()
        else:
            self._ends = _Ends()

    def probe(self) -> Transport:
        """Return the transport to try beside the connection, as ``probe_at`` has come."""
        self.probe_at = None
        return self._transports[self._probed]

    def probed(self, transport: str, works: bool, now: float) -> bool:
        """Note the outcome of a probe; return True if the connection is to be left for that transport."""
        index = self._transports.index(transport)  # type: ignore[arg-type]
        if index >= self._index:
            return False  # it is in use meanwhile
        self._probed = 0 if works or index + 1 >= self._index else index + 1
        if works:
            self._ends = _Ends()
            self._memory.save(self._url, RememberedTransport(transport, now + self._up) if index else None)
            return True
        if self._probed:
            self.probe_at = now
        else:
            self._remember(now, self._recall(self._url)[2] + 1)
        return False

    def stop(self) -> None:
        """Plan no probe any more: there is no connection."""
        self._probed, self.probe_at = 0, None

    def _remember(self, now: float, tries: int) -> None:
        until = now + min(self._up * 2.0 ** min(tries, 16), max(self._up, UP_SECONDS_MAX))
        self.probe_at = until
        self._memory.save(self._url, RememberedTransport(self.transport, until, tries))

    def _recall(self, url: str) -> tuple[int, float, int]:
        known = self._memory.load(url)
        if known is None or known.transport not in self._transports:
            return -1, -inf, 0
        return self._transports.index(known.transport), known.until, known.tries

    def _ended(self) -> int:
        """Count an abnormal end on this rung; return how many in a row there are."""
        where = self._url, self._index
        self._ends = _Ends(where, self._ends.number + 1 if self._ends.where == where else 1)
        return self._ends.number


def _is_networks(code: int) -> bool:
    """Return True if the network, and not the server, may have ended a connection with that code."""
    return code < 4000 or code in (Close.PING_TIMEOUT, Close.HANDSHAKE_TIMEOUT)
