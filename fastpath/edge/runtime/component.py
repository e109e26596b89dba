"""A component: a part of the sidecar, and what it offers to clients, publishers, Django and the other workers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...core.auth.grants import Principal
from ...core.broker import observers
from ...core.broker.observers import Source
from ...core.delivery.audience import Client, Topic
from ...core.protocol.errors import Close, Refused
from ...core.protocol.messages import Notice
from ...core.protocol.packets import Batch
from ...core.sessions.sessions import Handler as CommandHandler
from ...core.websocket.handshake import Request
from ...engine.base import SessionStore, SharedSessions
from ..node.messenger import NodesPart
from ..node.workers import Handler as MessageHandler

SESSION_ID_BYTES = 18
"""Bytes of chance in the id of a session over HTTP: whoever has it may speak for its client."""

NO_HEADERS: Mapping[str, str] = {}
"""Headers of a request that did not come over HTTP."""

Answer = dict[str, Any]
Done = Callable[[Answer], None]


class ControlPeer(Protocol):
    """The asker of a verb, as its component sees it: a connection of the control socket, or an operator's call."""

    principal: Principal | None
    """The one in whose name the peer asks; None: Django, which may do everything."""
    request: int
    """The number of the request that is being answered."""
    ended: list[Callable[[], None]]
    """Functions that are called when the connection is gone."""

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Answer a request later."""

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Answer a request with an error."""

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Say something that was not asked, as ``[0, name, {…}]``; how many bytes wait unsent."""

    def waiting(self) -> int:
        """Return the number of bytes that wait unsent."""


class PortListener(Protocol):
    """A listener to the connections of clients and publishers."""

    def opened(self, client: Client, request: Request) -> None:
        """Hear that a client's WebSocket has opened."""

    def rejected(
        self, address: str, reason: str, *, code: int = 0, status: int = 0, request: Request | None = None
    ) -> None:
        """Hear that a request for a WebSocket was refused: by a status of HTTP, or by a close code right after it."""

    def publisher_came(self, source: Source, publisher: str) -> None:
        """Hear that a publisher was let in."""

    def publisher_gone(self, source: Source, code: int, reason: str) -> None:
        """Hear that a publisher's connection is over."""


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
    """The questions to a hook about one publisher, whose frames wait for the answers."""

    def parks(self, packet: list[Any] | Batch, data: bytes, moment: int) -> bool:
        """Return whether the frame waits for an answer of the hook."""

    def gone(self, code: int, reason: str) -> None:
        """Note that the connection is over."""


class HookGateway(Protocol):
    """Asks a hook in Django who may come and what each may do."""

    def opened(self, client: Client, request: Request, token: str) -> None:
        """Take a client that has come, with this token in its address."""

    def publisher(
        self, connection: GatedPublisher, principal: Principal, token: str, welcome: Callable[[], None]
    ) -> PublisherDeferral:
        """Take a publisher that has come; call ``welcome`` when the publisher is let in."""

    def request(
        self,
        token: str,
        action: str,
        subject: str,
        done: Callable[[str], None],
        address: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Ask if the bearer of the token may do that: ``done`` gets the reason why not, empty for yes; raise
        Refused."""


class PasswordGateway(Protocol):
    """Has Django check the passwords of its users (edge/hooks/passwords.py)."""

    def check(self, user: str, password: str, address: str, done: Callable[[str, Refused | None], None]) -> None:
        """Check that it is the user's password: ``done`` gets a token of the user, or why there is none; at once or
        later."""


class MqttTable(Protocol):
    """The sessions of clients of MQTT (edge/clients/mqtt/sessions.py)."""

    @property
    def shares(self) -> Any:
        """The groups that share subscriptions (core/mqtt/shares.py); None where there are none."""

    def came(self, stream: Any) -> None:
        """Note that a connection speaks MQTT."""

    def take(self, stream: Any, owner: str, given: Callable[[Any, bool, str], None]) -> None:
        """Find the session of a client that is let in: ``given`` gets it, whether it was there, and a subject of which
        it has missed too much to go on; at once or later, or never if the connection ends before."""

    def discarded(self, stream: Any, subject: str) -> None:
        """End the session of the connection, as messages of the subject were missed."""

    def keep(self, store: SessionStore) -> None:
        """Go on with the sessions that are in the store, and keep them there from now on."""

    def subscribed(self, stream: Any) -> None:
        """Note that the subscriptions of the connection's client have changed."""

    def gone(self, stream: Any, client: Client | None) -> None:
        """Note that the connection is over."""


class Draining(Protocol):
    """Sends everybody elsewhere (edge/workers/drain.py)."""

    @property
    def active(self) -> bool:
        """True while newcomers are refused and clients sent elsewhere."""


class SharedSessionsPart(NodesPart, Protocol):
    """The part of this process that has the sessions of MQTT clients together with other nodes."""

    async def finish(self) -> None:
        """Say what waits, and leave."""


class SessionSharing(Protocol):
    """The sessions of clients of MQTT, which nodes can have together."""

    def share(self, node: str, shared: SharedSessions) -> SharedSessionsPart:
        """Have them together with other nodes from now on; ``node`` is the name of this one."""


Verb = Callable[[ControlPeer, dict[str, Any]], dict[str, Any] | None]
"""Answers a request of the control socket; None: the answer follows by ``ControlPeer.reply``."""

Frame = Callable[[Any, int, list[Any]], None]
"""Takes a publisher's connection (edge/publishers/connection.py) and its ``[kind, number, …]``, and answers it by
``reply``; raises Refused to end the connection."""

Answering = Callable[[Answer, Done], None]
"""Answers, now or later, a question that all workers are asked; InvalidMessage that is raised is the answer, too."""


Endpoint = Callable[[Any], None]
"""Takes a call (edge/plain_http/call.py) and answers it, now or later; raises InvalidMessage, Refused or BadRequest."""

Methods = Mapping[str, Endpoint]
"""The endpoints of a path, by method; GET answers HEAD as well."""


class MetricsPage(NamedTuple):
    """A page of the metrics port: its status of HTTP, its content type and its content."""

    status: int
    kind: str
    body: bytes


Route = Callable[[bool], MetricsPage]
"""Makes a page; takes whether who asks has proved to know the password, and raises BadRequest for what it refuses."""


class HttpExchange(Protocol):
    """A connection of a client port that speaks HTTP, behind the object that has its socket."""

    def received(self, data: bytes) -> None:
        """Take bytes that came."""

    def writable(self) -> None:
        """Go on writing, as the socket takes bytes again."""

    def ended_by_peer(self) -> bool:
        """Note that the peer says nothing more; return True if it is answered for a moment all the same."""

    def expire(self) -> None:
        """Act on what was to happen in time and has not."""

    def gone(self) -> None:
        """Let go of the socket, which is closed."""


class PostedTo(Protocol):
    """A session over HTTP, as who posts to it sees it (edge/clients/connection.py)."""

    def posted(self, first: int, frames: list[bytes], done: Callable[[int], None]) -> None:
        """Take frames of the client, of which the first has this number in the session; those that were said before are
        left out. ``done`` gets a status of HTTP: 204 when all are handled, 404 when the session ends before."""

    def leave(self) -> None:
        """Note that the client says that it has gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The services of a component.

    The runtime takes all of them when the component is handed over (``Runtime.serve``).
    """

    verbs: Mapping[str, Verb] = field(default_factory=dict)
    """Verbs of the control socket, by name."""
    frames: Mapping[str, Frame] = field(default_factory=dict)
    """Frames of the publisher port, by kind."""
    commands: Mapping[type, CommandHandler] = field(default_factory=dict)
    """Commands of clients, by type."""
    questions: Mapping[str, Answering] = field(default_factory=dict)
    """Questions that all workers are asked (edge/runtime/scatter.py), by kind."""
    messages: Mapping[type, MessageHandler] = field(default_factory=dict)
    """Messages of other workers (edge/node/messages.py), by type."""
    reloads: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """Functions that read something anew when the operator says so, by name; they raise ValueError or OSError."""
    figures: Callable[[], dict[str, float]] | None = None
    """More figures of this process."""
    connections: PortListener | None = None
    observes: observers.ConnectionListener | None = None
    """Told by the core what this process' clients do."""
    appeared: Callable[[Topic], None] | None = None
    """Told of a subject that is published to for the first time, before anything of it is delivered."""
    endpoints: Mapping[str, Methods] = field(default_factory=dict)
    """Endpoints of client ports over HTTP, by path."""
    lines: Mapping[str, Methods] = field(default_factory=dict)
    """The same, of all paths that begin so (``/session/``), and whose bodies are lines of text."""
    routes: Mapping[str, Route] = field(default_factory=dict)
    """Pages of the metrics port, by path."""
    mqtt: MqttTable | None = None
    """Knows the sessions of clients of MQTT."""
    gate: HookGateway | None = None
    """Asks a hook in Django who may come and what each may do."""
    passwords: PasswordGateway | None = None
    """Has the passwords of Django's users checked."""
    drain: Draining | None = None
    """Sends everybody elsewhere."""
    nodes: NodesPart | None = None
    """Sends to other nodes and hears them, on the first worker."""
    sharing: SessionSharing | None = None
    """Has the sessions of clients of MQTT together with other nodes, on the first worker."""
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
    """Function called ten times a second with the time (ms)."""
    on_second: Callable[[int], None] | None = None
    """Function called once a second with the time (ms)."""
    stop: Callable[[], None] | None = None
    """Function called when the clocks stop."""


class Component(Protocol):
    """A part of the sidecar that serves something."""

    @property
    def offers(self) -> Offers:
        """The services of the component."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A component that is nothing but what it offers."""

    offers: Offers


class HttpEndpoints:
    """All endpoints of a process, the connections that call them, and the sessions that they are a part of."""

    def __init__(self) -> None:
        self.by_path: dict[str, Methods] = {}
        self.lines: dict[str, Methods] = {}
        """Methods by the first part of the path."""
        self.sessions: dict[str, PostedTo] = {}
        """The sessions of clients that speak over HTTP, by their ids."""
        self.exchanges: dict[object, HttpExchange] = {}
        """Exchanges by the object that has the socket."""
        self.opened = 0
        self.requests = 0

    def serve(self, endpoints: Mapping[str, Methods], lines: Mapping[str, Methods]) -> None:
        """Answer these paths from now on."""
        self.by_path.update(endpoints)
        self.lines.update(lines)

    def find(self, path: str) -> tuple[Methods | None, bool]:
        """Return the endpoints of a path, None where there are none; and True if their bodies are lines."""
        if path in self.by_path:
            return self.by_path[path], False
        return self.lines.get(path[: path.find("/", 1) + 1]), True

    def begin_session(self, worker: int, session: PostedTo) -> str:
        """Return the id of one more session: it names its worker, and nobody can guess it."""
        number = f"{worker}-{secrets.token_urlsafe(SESSION_ID_BYTES)}"
        self.sessions[number] = session
        return number

    def number(self) -> int:
        """Return the number of one more connection."""
        self.opened += 1
        return self.opened

    def begin(self, connection: object, exchange: HttpExchange) -> None:
        """Begin HTTP on the connection."""
        self.exchanges[connection] = exchange

    def end(self, connection: object) -> None:
        """End the connection, which is over."""
        exchange = self.exchanges.pop(connection, None)
        if exchange is not None:
            exchange.gone()

    def count(self) -> None:
        """Count one more request."""
        self.requests += 1
