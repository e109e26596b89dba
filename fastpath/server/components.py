"""What a process of the sidecar consists of: its components, in the order in which they are built."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.auth.hook_grants import Hooked
from ..core.auth.keys import Keys, is_address
from ..core.broker.broker import Broker
from ..core.protocol.codec import MQTT, MQTT5, SSE
from ..core.sessions.sessions import Sessions
from ..edge.channel_layer.verbs import ChannelVerbs
from ..edge.clients.backlogs import LongCommands, RecoveryTurns
from ..edge.clients.event_stream import EventStreams
from ..edge.clients.liveness import Liveness
from ..edge.clients.mqtt.guests import GuestSessions
from ..edge.clients.mqtt.sessions import MqttSessions
from ..edge.clients.mqtt.stream import MqttStreams
from ..edge.clients.quotas import Quotas, make_guard
from ..edge.clients.session_requests import SessionRequests
from ..edge.control.actions import ClientActions
from ..edge.control.client_detail import ClientDetail
from ..edge.control.connection import ControlConnection
from ..edge.control.find_clients import ClientSearch
from ..edge.control.operating import OperatorRequests
from ..edge.control.publisher_rankings import PublisherRankings
from ..edge.control.rankings import Rankings
from ..edge.control.subject_branches import SubjectBranches
from ..edge.control.subject_detail import SubjectDetail
from ..edge.control.subjects import Subjects
from ..edge.control.traces import Traces
from ..edge.hooks.gateway import DjangoHook
from ..edge.hooks.passwords import Passwords
from ..edge.listen.key_address import KeyAddress
from ..edge.listen.key_file import KeyFile
from ..edge.listen.listeners import Ports
from ..edge.listen.reload import Reloader
from ..edge.plain_http.decisions import Decisions
from ..edge.plain_http.publishing import Publishing
from ..edge.plain_http.reading import HttpReading
from ..edge.requests.calls import HttpRequests
from ..edge.requests.clients import ClientRequests
from ..edge.requests.control import ControlRequests
from ..edge.requests.requests import Requests
from ..edge.runtime.component import Component, Offers, Plain
from ..edge.runtime.runtime import Runtime, now
from ..edge.runtime.socket_writer import SocketWriter
from ..edge.telemetry.bounds import Bounds
from ..edge.telemetry.figures import Statistics
from ..edge.telemetry.health import NodeState, Readiness
from ..edge.telemetry.http_endpoint import Health, MetricsConnection
from ..edge.telemetry.rights_assurance import Assurance
from ..edge.telemetry.samples import Samples
from ..edge.workers.drain import Drainer
from ..edge.workers.follower import Follower
from ..edge.workers.heartbeat import Heartbeat
from ..edge.workers.leader import Links
from ..edge.workers.rights import BroughtRights
from ..edge.workers.servers import HttpServers
from ..engine import registry
from ..engine.base import Engine
from ..listen_address import Listener
from ..logs import formats
from ..settings import Settings
from .modes import make_grants
from .tracing import make_metrics, make_tracing


@dataclass(frozen=True, slots=True)
class Worker:
    """The parent's word to one of several workers (fastpath/server/workers.py)."""

    number: int
    listeners: Sequence[Listener]
    """Listeners with their real ports."""
    sockets: dict[str, socket.socket]
    """The unix sockets to listen on, by path: all workers share them."""
    links: str
    """The path of the unix socket that links the others to the first."""
    links_socket: socket.socket | None
    """Socket of the links, listening, for the first worker."""
    survivors: int
    """Number of other workers that may hold the state of the one before it; for the first worker."""
    count: int
    """Number of workers."""
    parent: int
    """A descriptor that ends when the parent has ended."""
    report: int
    """A descriptor that takes one line when this worker serves, and its beats from then on (watchdog.py)."""


def make_runtime(
    settings: Settings, loop: asyncio.AbstractEventLoop, engine: Engine | None = None, worker: int = 0
) -> Runtime:
    """Make the broker with everything that every process serves from its start."""
    started = now()
    engine = engine or registry.memory(started)
    events, mqtt = EventStreams(), MqttStreams()
    broker = Broker(
        engine,
        make_grants(settings),
        settings.limits,
        server=secrets.token_hex(8),
        started=started,
        secret=secrets.token_bytes(32),
        guaranteed=settings.delivery == "guaranteed",
        snapshots=settings.snapshots,
        own=registry.own_numbering(engine, started),
        writer=SocketWriter({SSE: events.write, MQTT: mqtt.write, MQTT5: mqtt.write}),
    )
    sessions = Sessions(broker, settings.ping_seconds, make_guard(settings, broker.counters), Liveness().moved)
    runtime = Runtime(loop, settings, broker, sessions, worker, events)
    sessions.recoveries.run_by(RecoveryTurns(runtime).wake)
    sessions.long_commands.run_by(LongCommands(runtime).run)
    sessions_over_http = SessionRequests(runtime)
    grants = broker.grants
    requests = Requests(runtime)
    actions = ClientActions(runtime)
    components: list[Component] = [
        Publishing(runtime),
        NodeState(runtime),
        Decisions(runtime),
        requests,
        ClientRequests(runtime, requests),
        HttpRequests(runtime, requests),
        ControlRequests(runtime, requests),
        ChannelVerbs(runtime),
        ClientSearch(runtime),
        ClientDetail(runtime),
        actions,
        OperatorRequests(runtime, actions),
        SubjectDetail(runtime),
        Traces(runtime),
        *([key_source(runtime, settings, grants.keys)] if settings.token_keys and grants.keys is not None else []),
        Quotas(runtime),
        GuestSessions(runtime) if worker else MqttSessions(runtime),
        *([Passwords(runtime, secrets.token_bytes(32))] if settings.mqtt_passwords and grants.mode == "rules" else []),
        HttpReading(runtime),
        sessions_over_http,
        sessions_over_http.relay,
        Plain(Offers(figures=lambda: {"log_dropped": formats.dropped()})),
        *make_tracing(settings, runtime),
    ]
    if isinstance(grants, Hooked):
        components.append(DjangoHook(runtime, grants.asking))
    runtime.serve(*components)
    return runtime


def key_source(runtime: Runtime, settings: Settings, keys: Keys) -> KeyAddress | KeyFile:
    """Return what follows the keys where they lie."""
    if is_address(settings.token_keys):
        return KeyAddress(runtime, settings.token_keys, settings.token_keys_seconds, keys)
    return KeyFile(runtime, settings.token_keys)


class Node:
    """A process with its ports, none of them open yet, and what tells others how it is.

    ``worker`` is what the parent says of one of several, ``links`` is its way to the others. What begins only when the
    engine has what it kept is not here: the publisher port's services, the audit and presence.
    """

    def __init__(self, runtime: Runtime, worker: Worker | None = None, links: Links | Follower | None = None) -> None:
        first = not runtime.workers.follows
        report = links.report if isinstance(links, Follower) else None
        self.runtime = runtime
        self.statistics = Statistics(runtime, runtime.workers.number, report)
        self._samples = Samples(runtime, self.statistics) if first else None
        self.heartbeat = Heartbeat(runtime, worker.count - 1 if worker is not None and first else 0)
        assurance = Assurance(runtime.sessions.rights, lambda: runtime.awake.time)
        readiness = Readiness(runtime, self.heartbeat, assurance)
        watchers: set[MetricsConnection] = set()
        self.ports = Ports(
            runtime,
            lambda: ControlConnection(runtime),
            lambda: MetricsConnection(runtime, watchers),
            shared=worker is not None,
            inherited=worker.sockets if worker is not None else None,
        )
        self.drain = Drainer(
            runtime,
            self.ports,
            lambda: self.statistics.figures()["connections"],
            worker.count if worker is not None else 1,
        )
        self.reload = Reloader(runtime, self.ports)
        components: list[Component] = [
            *((links,) if links is not None else ()),
            self.statistics,
            self.statistics.latencies,
            BroughtRights(runtime, links if isinstance(links, Links) else None),
            *((Subjects(runtime), self._samples, SubjectBranches(runtime)) if self._samples is not None else ()),
            self.heartbeat,
            assurance,
            readiness,
            Health(self.statistics, readiness),
            Bounds(runtime, self.ports.connections_max),
            Rankings(runtime, self.statistics),
            PublisherRankings(runtime, self.statistics),
            *(make_metrics(runtime.settings, self.statistics) if first else ()),
            self.drain,
            HttpServers(self.drain),
            self.reload,
        ]
        runtime.serve(*components)

    def open(self, listeners: Sequence[Listener], *purposes: str) -> None:
        """Open the ports of these purposes; raises SettingsError."""
        for listener in listeners:
            if not listener.purposes.isdisjoint(purposes):
                self.ports.open(listener)

    def start(self) -> None:
        """Count from now on, and on the first worker sample."""
        self.statistics.start()
        if self._samples is not None:
            self._samples.start()

    def beat(self, beat: Callable[[], None]) -> None:
        """Show each second that the loop runs."""
        self.heartbeat.start(beat, self.ports.taking_none)
