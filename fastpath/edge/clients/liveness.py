"""Whether a client lives whose answer to a ping was not seen: one of the two waits unread, here or in the kernel."""

from __future__ import annotations

from typing import cast

from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ..runtime.kernel_stats import Network, network, unread
from .connection import ClientConnection

KEPT_MAX = 10_000
"""Clients whose position is known; beyond that the oldest ones are forgotten, and have another turn."""


NOT_READ = PauseReason.TURN | PauseReason.CONGESTED | PauseReason.RATE | PauseReason.SEARCHING | PauseReason.WORKING
"""Reasons why the server does not read a client for a while that end without any doing of the client's."""


class Liveness:
    """The amounts that clients had taken when they were asked last."""

    def __init__(self) -> None:
        self._taken: dict[int, object] = {}

    def moved(self, client: Client) -> bool:
        """Return whether the client has shown a sign of life since this was asked last.

        A sign is something that it said and nobody has read yet, or that it took any of what waits for it. The answer
        is yes when it is asked for the first time; no if nothing waits: then the ping is on its way, and nobody answers
        it. Who has no way to answer lives as long as its kernel goes on taking what it is sent. Whoever is not heard
        because the server does not read it is judged when it is read again.
        """
        wire = client.terms.wire
        if not wire.pings:
            return True  # it is judged by its polls (poll_connection.py), or by its keep alive (mqtt/sessions.py)
        held = cast(ClientConnection, client.link).held
        if held & NOT_READ or (not held and unread(client.slot_key)):
            return True
        found, queue = network(client.slot_key), client.queue
        answers = wire.answers
        if not answers and queue is None and (found is None or not _under_way(found)):
            return True  # its kernel has taken all that it was sent
        before = self._taken.pop(client.number, None)
        if answers and queue is None and (found is None or not found["unsent_bytes"]):
            return False
        taken = (queue.size, queue.sent) if found is None and queue is not None else found and found["bytes_acked"]
        if taken == before:
            return False
        if len(self._taken) >= KEPT_MAX:
            del self._taken[next(iter(self._taken))]
        self._taken[client.number] = taken
        return True


def _under_way(found: Network) -> bool:
    """Return whether the peer's kernel has not acknowledged all that was sent."""
    return bool(found["unsent_bytes"] or found["unacked_segments"])
