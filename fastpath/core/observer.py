"""What happens to clients, told on the spot to whoever keeps count of it: audit, presence, interest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import Client
    from .interest import Topic
    from .messages import Result, Subscribe


class Observer:
    """Base of those that are told; does nothing. None of its methods may raise, wait, or call back into the core."""

    def connected(self, client: Client) -> None:
        """A client's WebSocket has opened; who it is may change with ``renewed``."""

    def disconnected(self, client: Client) -> None:
        """It is gone, ``client.end`` says why; its subscriptions are still there to be read."""

    def renewed(self, client: Client, before: str) -> None:
        """It has a principal by another token; ``before`` is the name of the user it was."""

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """A subscription has begun, or begun ``again`` in place of an earlier one of the same subject."""

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """Subscriptions have ended: by the client (``why`` is empty), or because a right has."""
