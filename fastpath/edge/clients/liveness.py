"""Whether a client lives whose answer to a ping was not seen: one of the two waits unread, here or in the kernel."""

from __future__ import annotations

from typing import cast

from ...core.delivery.audience import Client
from ..runtime.kernel_stats import network, unread
from .incoming import Incoming

KEPT_MAX = 10_000
"""Clients whose position is known; beyond that the oldest ones are forgotten, and have another turn."""


class Moving:
    """The amounts that clients had taken when they were asked last."""

    def __init__(self) -> None:
        self._taken: dict[int, object] = {}

    def moved(self, client: Client) -> bool:
        """Return whether the client has shown a sign of life since this was asked last.

        A sign is something that it said and nobody has read yet, or that it took any of what waits for it. The answer
        is yes when it is asked for the first time; no if nothing waits: then the ping is on its way, and nobody answers
        it.
        """
        if not cast(Incoming, client.link).held and unread(client.fd):
            return True
        found, queue = network(client.fd), client.queue
        before = self._taken.pop(client.number, None)
        if queue is None and (found is None or not found["unsent_bytes"]):
            return False
        taken = (queue.size, queue.sent) if found is None and queue is not None else found and found["bytes_acked"]
        if taken == before:
            return False
        if len(self._taken) >= KEPT_MAX:
            del self._taken[next(iter(self._taken))]
        self._taken[client.number] = taken
        return True
