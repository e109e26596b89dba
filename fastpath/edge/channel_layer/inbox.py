"""What each other node has sent, handled in its order also where some of it takes several turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..node.node_messages import BetweenNodes

WAITING_MAX = 10_000
"""Messages of one node behind one that takes several turns; what is sent to channels beyond it finds no room."""


class Inboxes:
    """``handle`` gets a node and a message of it; it returns False where the next one has to wait for ``go_on``."""

    def __init__(self, handle: Callable[[str, BetweenNodes], bool]) -> None:
        self._handle = handle
        self._waiting: dict[str, deque[BetweenNodes]] = {}  # of nodes whose next message has to wait

    def full(self, node: str) -> bool:
        """Return whether so much of that node waits that more had better not."""
        return len(self._waiting.get(node, ())) >= WAITING_MAX

    def put(self, node: str, packet: BetweenNodes) -> None:
        """Handle it, when all before it is."""
        waiting = self._waiting.get(node)
        if waiting is not None:
            waiting.append(packet)
        elif not self._handle(node, packet):
            self._waiting.setdefault(node, deque())

    def go_on(self, node: str) -> None:
        """Handle what waits behind the message that took several turns and is done."""
        waiting = self._waiting[node]
        while waiting:
            if not self._handle(node, waiting.popleft()):
                return
        del self._waiting[node]
