"""What happens to clients, publications and the cache, told on the spot to whoever keeps count of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..auth.grants import Principal
    from ..delivery.audience import Client, Group, Topic
    from ..protocol.messages import AnyCommand, Message, Result, Subscribe
    from .admission import Done


class ConnectionListener:
    """Base of those that are told; does nothing. None of its methods may raise, wait, or call back into the core."""

    def connected(self, client: Client) -> None:
        """Hear that a client's WebSocket has opened; who the client is may change with ``renewed``."""

    def introduced(self, client: Client, program: str) -> None:
        """Hear that the client has said ``connect``, and the name of its program (protocol.md 3.1)."""

    def disconnected(self, client: Client) -> None:
        """Hear that the client is gone; ``client.end`` says why, and its subscriptions can still be read."""

    def renewed(self, client: Client, before: str) -> None:
        """Hear that the client has a principal by another token; ``before`` is the name of the user that it was."""

    def subscribed(self, client: Client, topic: Topic, request: Subscribe, result: Result, again: bool) -> None:
        """Hear that a subscription has begun, or begun ``again`` in place of an earlier one of the same subject."""

    def subscribed_together(self, group: Group, topic: Topic, result: Result) -> None:
        """Hear that all members of a group follow a subject that comes to be, by their pattern
        (core/sessions/cohorts.py)."""
        for client in (*group.ready, *group.singles):
            if client.wilds:
                self.subscribed(client, topic, client.wilds[result.pattern].request, result, False)

    def denied(self, client: Client, results: Sequence[Result]) -> None:
        """Hear that subscriptions were answered with an error; ``not_ready`` is one of those."""

    def unsubscribed(self, client: Client, topics: Iterable[Topic], why: str) -> None:
        """Hear that subscriptions have ended: by the client (``why`` is empty), or because a right has."""

    def unsubscribed_together(self, group: Group, topics: Sequence[Topic], why: str) -> None:
        """Hear that the subscriptions of all members have ended, because a right has."""
        for client in (*group.ready, *group.singles):
            self.unsubscribed(client, topics, why)

    def blocked(self, client: Client) -> None:
        """Hear that the client's socket did not take what was written: from now on the client has a queue."""

    def unblocked(self, client: Client) -> None:
        """Hear that the client has taken all that was in its queue."""

    def lagging(self, client: Client, topics: Sequence[Topic]) -> None:
        """Hear that from now on a number stands for what comes of these subscriptions
        (core/delivery/slow_consumers.py)."""

    def caught_up(self, client: Client, topics: Sequence[Topic]) -> None:
        """Hear that the client, which lagged in these topics, is level again."""


class CommandListener(Protocol):
    """Told what clients say; it costs for each command, so that sessions have one only while somebody asks for it."""

    def said(self, client: Client, command: AnyCommand) -> None:
        """Hear of a command that came, and is done next."""

    def refused(self, client: Client, code: str, reason: str) -> None:
        """Hear of a command that was answered with an error and had no effect."""


class Source(Protocol):
    """The origin of publications: a client or a publisher's connection; ``number`` tells it from others of its kind."""

    number: int
    address: str

    @property
    def principal(self) -> Principal | None:
        """The principal that the source acts for."""


class PublicationListener:
    """Base of what follows publications; does nothing. It costs for each message, so that a broker has
    one only while somebody asks for it. None of its methods may raise, wait, or call back into the core."""

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        """Return the callback that gets the outcomes instead of ``done`` and hands them on; source None is Django."""
        del source, messages
        return done

    def unread(self, source: Source | None, row: Any, code: str, reason: str) -> None:
        """Hear of a publication that was refused before it became a message: its subject, or the row as it came."""

    def ended(self, source: Source, code: int, reason: str, seconds: float) -> None:
        """Hear that a publisher's connection is over, after so long; of clients observers are told."""

    def delivering(self, messages: Sequence[Message]) -> None:
        """Hear that messages have been numbered, and are cached and offered next."""


class Trails(PublicationListener):
    """A listener of publications that hands everything on to several others."""

    def __init__(self, trails: Sequence[PublicationListener]) -> None:
        self._trails = tuple(trails)

    def publication(self, source: Source | None, messages: Sequence[Message], done: Done | None) -> Done | None:
        for trail in self._trails:
            done = trail.publication(source, messages, done)
        return done

    def unread(self, source: Source | None, row: Any, code: str, reason: str) -> None:
        for trail in self._trails:
            trail.unread(source, row, code, reason)

    def ended(self, source: Source, code: int, reason: str, seconds: float) -> None:
        for trail in self._trails:
            trail.ended(source, code, reason, seconds)

    def delivering(self, messages: Sequence[Message]) -> None:
        for trail in self._trails:
            trail.delivering(messages)
