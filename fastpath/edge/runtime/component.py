"""A component: a part of the sidecar, and what it offers to clients, publishers, Django and the other workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...core.auth.grants import Principal
from ...core.broker.observers import Source
from ...core.delivery.audience import Client
from ...core.protocol.errors import Close
from ...core.protocol.messages import Notice
from ...core.protocol.packets import Batch
from ...core.sessions.sessions import Handler as CommandHandler
from ...core.websocket.handshake import Request
from ..node.workers import Handler as MessageHandler

Answer = dict[str, Any]
Done = Callable[[Answer], None]


class ControlPeer(Protocol):
    """A connection of the control socket, as what extends its verbs sees it."""

    request: int
    """The number of the request that is being answered."""
    ended: list[Callable[[], None]]
    """Called when the connection is gone."""

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Answer a request later."""

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Answer a request with an error."""

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Say something that was not asked, as ``[0, name, {…}]``; how many bytes wait unsent."""

    def waiting(self) -> int:
        """Return the number of bytes that wait unsent."""


class ConnectionListener(Protocol):
    """Is told of the connections of clients and publishers."""

    def opened(self, client: Client, request: Request) -> None:
        """A client's WebSocket has opened."""

    def rejected(
        self, address: str, reason: str, *, code: int = 0, status: int = 0, request: Request | None = None
    ) -> None:
        """A request for a WebSocket was refused: by a status of HTTP, or by a close code right after it."""

    def publisher_came(self, source: Source, publisher: str) -> None:
        """A publisher was let in."""

    def publisher_gone(self, source: Source, code: int, reason: str) -> None:
        """A publisher's connection is over."""


class GatedPublisher(Protocol):
    """A publisher's connection, as who asks a hook about it sees it."""

    address: str
    number: int

    @property
    def principal(self) -> Principal | None:
        """The principal that publishes."""

    def hold(self, held: bool, why: int) -> None:
        """Handle nothing more of what it sends, or go on."""

    def close(self, code: Close, reason: str) -> None:
        """Say why, and end."""


class PublisherDeferral(Protocol):
    """What a hook is asked about one publisher; its frames wait for that."""

    def parks(self, packet: list[Any] | Batch, data: bytes, moment: int) -> bool:
        """Return whether the frame waits for an answer of the hook."""

    def gone(self, code: int, reason: str) -> None:
        """The connection is over."""


class HookGateway(Protocol):
    """Asks a hook in Django who may come and what each may do."""

    def opened(self, client: Client, request: Request, token: str) -> None:
        """A client has come, with this token in its address."""

    def publisher(
        self, connection: GatedPublisher, principal: Principal, token: str, welcome: Callable[[], None]
    ) -> PublisherDeferral:
        """A publisher has come; ``welcome`` is called when it is let in."""

    def request(self, token: str, action: str, subject: str, done: Callable[[str], None]) -> None:
        """May the bearer of the token do that: ``done`` gets the reason why not, empty for yes; raises Refused."""


Verb = Callable[[ControlPeer, dict[str, Any]], dict[str, Any] | None]
"""Answers a request of the control socket; None: the answer follows by ``ControlPeer.reply``."""

Frame = Callable[[Any, int, list[Any]], None]
"""Takes a publisher's connection (edge/publishers/connection.py) and its ``[kind, number, …]``, and answers it by
``reply``; raises Refused to end the connection."""

Answering = Callable[[Answer, Done], None]
"""Answers, now or later, a question that all workers are asked; InvalidMessage that is raised is the answer, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The services of a component.

    The runtime takes all of them when the component is handed over (``Runtime.serve``).
    """

    verbs: Mapping[str, Verb] = field(default_factory=dict)
    """Of the control socket, by name."""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    """Of the publisher port, by kind."""
    commands: Mapping[type, CommandHandler] = field(default_factory=dict)
    """Of clients, by type."""
    questions: Mapping[str, Answering] = field(default_factory=dict)
    """That all workers are asked (edge/runtime/scatter.py), by kind."""
    messages: Mapping[type, MessageHandler] = field(default_factory=dict)
    """Of other workers (edge/node/messages.py), by type."""
    reloads: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """What is read anew when the operator says so, by name; raises ValueError or OSError."""
    figures: Callable[[], dict[str, float]] | None = None
    """More figures of this process."""
    connections: ConnectionListener | None = None
    gate: HookGateway | None = None
    """Asks a hook in Django who may come and what each may do."""
    linked: Callable[[int], None] | None = None
    """Told that messages can be sent to that worker."""
    parted: Callable[[int], None] | None = None
    """Told on the first worker that another one is gone."""
    noticed: Callable[[Notice], None] | None = None
    """Told what all clients of this process are told."""
    eased: Callable[[], None] | None = None
    """Told that publishers need not wait any more."""
    crowded: Callable[[bool], None] | None = None
    """Told that too much waits to be written here, or no more."""
    ponged: Callable[[Client, bytes], None] | None = None
    """Told of an answer to a WebSocket ping that had a payload."""
    on_grid: Callable[[int], None] | None = None
    """Called ten times a second with the time (ms)."""
    on_second: Callable[[int], None] | None = None
    """Called once a second with the time (ms)."""
    stop: Callable[[], None] | None = None
    """Called when the clocks stop."""


class Component(Protocol):
    """A part of the sidecar that serves something."""

    @property
    def offers(self) -> Offers:
        """Return the services of the component."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A component that is nothing but what it offers."""

    offers: Offers
