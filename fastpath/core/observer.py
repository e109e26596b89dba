"""What happens to clients, publications and the cache, told on the spot to whoever keeps count of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .admission import Done
    from .client import Client
    from .grants import Principal
    from .interest import Topic
    from .messages import Message, Result, Subscribe


class Observer:
    """Base of those that are told; does nothing. None of its methods may raise, wait, or call back into the core."""

    def connected(self, client: Client) -> None:
        """A client's WebSocket has opened; who it is may change with ``renewed``."""

    def introduced(self, client: Client, program: str) -> None:
        """It has said ``connect``, and the name of its program (protocol.md 3.1)."""

    def disconnected(self, client: Client) -> None:
        """It is gone, ``client.end`` says why; its subscriptions are still there to be read."""

    def renewed(self, client: Client, before: str) -> None:
        """It has a principal by another token; ``before`` is the name of the user it was."""

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """A subscription has begun, or begun ``again`` in place of an earlier one of the same subject."""

    def denied(self, client: Client, results: Sequence[Result]) -> None:
        """Subscriptions were answered with an error; ``not_ready`` is one of those."""

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """Subscriptions have ended: by the client (``why`` is empty), or because a right has."""


class Source(Protocol):
    """Who publishes: a client, or a publisher's connection. ``number`` tells it from the others of its kind."""

    number: int
    address: str

    @property
    def principal(self) -> Principal | None:
        """Who it acts for."""


class Trail:
    """Base of what follows publications and the cache; does nothing. It costs for each message, so that a broker has
    one only while somebody asks for it. None of its methods may raise, wait, or call back into the core."""

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        """What gets the outcomes of the messages instead of ``done``, and hands them on; source None is Django."""
        del source, messages
        return done

    def unread(self, source: Source | None, row: Any, code: str, reason: str) -> None:
        """A publication that was refused before it became a message: its subject, or the row as it came."""

    def delivering(self, messages: Sequence[Message]) -> None:
        """These have been numbered, and are cached and offered next."""

    def evicted(self, message: Message, cause: str) -> None:
        """A message has left the cache: by ``count``, ``age``, ``memory``, or because it is ``void``."""
