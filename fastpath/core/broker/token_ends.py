"""When clients' tokens end: each is told a minute before and closed at the end, exactly, however seldom it is looked.

Whoever gives a time to the core passes it here first (``pass_time``), so that nothing is said to a client whose token
has ended by then, whatever comes first after the process stood still. That costs one comparison while nothing is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..delivery.audience import Client

NOTICE_MS = 60_000
"""Milliseconds before its token ends at which a client is told (protocol.md 4.10)."""

_NEVER = 1 << 62


class TokenEnds:
    """The ends of the tokens of all clients, which are in ``slots`` by their slot keys.

    Those that end within the notice and ``ahead_ms`` are in order; of the others each slot knows the first, as there
    may be a million. ``ends`` is called with a client whose token has ended, ``soon`` with one whose token ends soon
    and the time (ms) when it does, and notes that it is warned.
    """

    def __init__(
        self,
        slots: Sequence[Mapping[Client, None]],
        ahead_ms: int,
        ends: Callable[[Client], None],
        soon: Callable[[Client, int], None],
    ) -> None:
        self._slots = slots
        self._near_ms = NOTICE_MS + ahead_ms
        self._ends = ends
        self._soon = soon
        self._far = [_NEVER] * len(slots)
        self._order: list[tuple[int, int]] = []  # moment and number of a client
        self._near: dict[int, tuple[int, Client]] = {}  # by number: the moment at which it is looked at
        self.due = _NEVER
        """The time (ms) at which there is something to do next, or earlier."""

    def watch(self, client: Client, now: int) -> None:
        """Watch a client that has come, has said something for the first time, before which it is told nothing, or has
        another token."""
        expires = client.principal.expires
        if expires is None:
            return
        if expires > now + self._near_ms:
            slot = client.slot_key % len(self._slots)
            self._far[slot] = min(self._far[slot], expires)
            self.due = min(self.due, expires - NOTICE_MS)
            return
        moment = expires - NOTICE_MS if client.greeted and not client.warned else expires
        known = self._near.get(client.number)
        if known is None or moment < known[0]:  # else it is looked at before, and then again
            self._near[client.number] = moment, client
            heappush(self._order, (moment, client.number))
            self.due = min(self.due, moment)

    def forget(self, client: Client) -> None:
        """Forget a client that has gone."""
        self._near.pop(client.number, None)

    def pass_time(self, now: int) -> None:
        """Tell and end whose time has come, as it is ``now`` (ms), before anything else is said at that time."""
        if now < self.due:
            return
        self.due = _NEVER  # it may be called again meanwhile, as goodbyes are written
        for slot, first in enumerate(self._far):
            if first - NOTICE_MS <= now:
                self._far[slot] = _NEVER
                for client in self._slots[slot]:
                    self.watch(client, now)
        order = self._order
        while order and order[0][0] <= now:
            moment, number = heappop(order)
            known = self._near.get(number)
            if known is not None and known[0] == moment:
                del self._near[number]
                self._look(known[1], now)
        self.due = min(order[0][0] if order else _NEVER, min(self._far, default=_NEVER) - NOTICE_MS)

    def _look(self, client: Client, now: int) -> None:
        expires = client.principal.expires
        if expires is None:
            return
        if expires <= now:
            self._ends(client)
            return
        if client.greeted and not client.warned and expires <= now + NOTICE_MS:
            self._soon(client, expires)
        self.watch(client, now)
