"""What all ports share: the broker, the clock, the end of a tick, and connections that have a deadline."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from typing import Any, Protocol, TypeVar

from ...awake import AwakeClock
from ...core.auth.grants import Principal
from ...core.broker.admission import Done, with_refusals
from ...core.broker.broker import Broker
from ...core.broker.observers import Source
from ...core.delivery.audience import Client
from ...core.delivery.link import PauseReason
from ...core.delivery.outbox_performer import Performer
from ...core.presence.advertisements import Advertisers
from ...core.protocol.limits import command_bytes_max
from ...core.protocol.messages import Message, Notice
from ...core.protocol.packets import Refusal
from ...core.sessions.sessions import Sessions
from ...settings import Settings
from ..node.messenger import OtherNodes
from ..node.workers import Workers
from .access import Access
from .component import (
    NO_HEADERS,
    Component,
    Draining,
    Frame,
    HookGateway,
    HttpEndpoints,
    MqttTable,
    PasswordGateway,
    PortListener,
    Route,
    SessionSharing,
    Verb,
)
from .delivery_latency import measure
from .epoll import make_watch
from .loop_lag import LoopLag, waited_seconds
from .publisher_accounts import Accounts
from .scatter import Scatter
from .scheduler import Scheduler

LINKS, WRITES = 1, 2
"""Reasons why those who publish are held back: another worker does not keep up, or the writing to this one's clients
does not. Bits, for ``Runtime.congest``."""

GRID_SECONDS = 0.1
"""The grid of conflation (features.md A7)."""

LATE_SECONDS = 2.0
"""A loop that comes late gives those so much more whose time was over meanwhile: what they sent may not be read yet."""


class Drains(Protocol):
    """A publisher's connection, as the server sees it that stops or is congested."""

    def drain(self) -> None:
        """Say that the server stops."""

    def leave(self) -> None:
        """Say that the server stops, once what was taken from the publisher is acknowledged."""

    def hold(self, held: bool) -> None:
        """Stop reading from it, or go on."""

    def follow(self, moment: int) -> None:
        """Look at its rights again: a token that has ended or was revoked ends it."""


class OpenedStreams(Protocol):
    """The streams of events of a process (edge/clients/event_stream.py)."""

    def open(self, asked: Sequence[str], since: Mapping[str, tuple[int, int]], deflate_bytes: int) -> Any:
        """Open a stream of these subjects and patterns for a reader that comes with these positions; pieces from
        ``deflate_bytes`` on are compressed, 0: none."""


class Deadline(Protocol):
    """A connection that must do something in time."""

    def expire(self) -> None:
        """Act, as the time is over."""


Told = TypeVar("Told")


def _add(listeners: list[Told], listener: Told | None) -> None:
    if listener is not None:
        listeners.append(listener)


def now() -> int:
    """Return the time in ms since 1970: the only clock of the sidecar."""
    return time_ns() // 1_000_000


class Runtime:
    """The loop's side of the broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: Settings,
        broker: Broker,
        sessions: Sessions,
        worker: int,
        events: OpenedStreams,
    ) -> None:
        self.loop = loop
        self.settings = settings
        self.broker, self.sessions, self.events = broker, sessions, events
        self.performer = Performer(sessions.outboxes, loop.call_soon, self.end)
        self.access = Access(settings, sessions.publications)
        self.workers = Workers(worker)
        self.verbs: dict[str, Verb] = {}
        self.frames: dict[str, Frame] = {}
        self.routes: dict[str, Route] = {}
        self.reloads: dict[str, Callable[[], object]] = {}
        self.figures: list[Callable[[], dict[str, float]]] = []
        self.connection_listeners: list[PortListener] = []
        self.http = HttpEndpoints()
        self.asks: HookGateway | None = None
        self.passwords: PasswordGateway | None = None
        self.mqtt: MqttTable | None = None
        self.nodes = OtherNodes(loop, self.end)
        self.sharing: SessionSharing | None = None
        self.drain: Draining | None = None
        self.ponged: list[Callable[[Client, bytes], None]] = []
        self.command_bytes_max = command_bytes_max(settings.message_bytes_max)
        self.watch, self.scheduler = make_watch(loop, self.end), Scheduler(loop, self.pass_time)
        self.paused: dict[Deadline, list[Any]] = {}
        """Data that held client connections have read, in their own form, to be handled when they are held no more."""
        self.blocked: dict[Client, int] = {}
        """The clients whose sockets did not take what was written, and since when (ms)."""
        self.accounts = Accounts()
        self.publisher_connections: set[Drains] = set()
        self.control_connections: set[asyncio.Transport] = set()
        self.scatter = Scatter(loop, self.workers)
        self.started = False  # the clocks run: what was kept is here, and the ports are open or about to be
        self.advertisers = Advertisers(broker.grants)  # who advertises what in this process
        self.stale = self.congested = False
        """``stale``: nothing can be published. ``congested``: publishers wait, as a worker or the writing is behind."""
        self.latency = measure(broker, on=settings.statistics)
        self.loop_lag = LoopLag()
        self.awake = AwakeClock(2 * GRID_SECONDS, loop.time())  # by it whoever is silent is judged
        self.awake.tick(loop.time(), waited_seconds())
        self._flush_due, self._stepping, self._congestion, self.connections = False, False, 0, 0
        self._deadlines: dict[Deadline, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._batching = any(listener.batch_ms for listener in settings.listeners)
        self._batch_timer: asyncio.TimerHandle | None = None
        self._timers: list[asyncio.TimerHandle | None] = [None, None]
        self._noticed: list[Callable[[Notice], None]] = []
        self._eased: list[Callable[[], None]] = []
        self._crowded: list[Callable[[bool], None]] = []
        self._each_grid: list[Callable[[int], None]] = []
        self._each_second: list[Callable[[int], None]] = []
        self._stops: list[Callable[[], None]] = []
        self.serve(self.scatter)

    def serve(self, *components: Component) -> None:
        """Serve what these components offer, from now on, in their order."""
        for offers in (component.offers for component in components):
            self.verbs.update(offers.verbs)
            self.frames.update(offers.frames)
            self.routes.update(offers.routes)
            self.reloads.update(offers.reloads)
            self.sessions.answer(offers.commands)
            self.scatter.answer(offers.questions)
            self.workers.hear(offers.messages, offers.linked, offers.parted)
            self.http.serve(offers.endpoints, offers.lines)
            self.asks = offers.gate or self.asks
            self.passwords = offers.passwords or self.passwords
            self.mqtt = offers.mqtt or self.mqtt
            self.sharing = offers.sharing or self.sharing
            self.drain = offers.drain or self.drain
            if offers.nodes is not None:
                self.nodes.serve(offers.nodes)
            _add(self.figures, offers.figures)
            _add(self.connection_listeners, offers.connections)
            _add(self.broker.observers, offers.observes)
            _add(self.broker.appeared, offers.appeared)
            _add(self.ponged, offers.ponged)
            _add(self._noticed, offers.noticed)
            _add(self._eased, offers.eased)
            _add(self._crowded, offers.crowded)
            _add(self._each_grid, offers.on_grid)
            _add(self._each_second, offers.on_second)
            _add(self._stops, offers.stop)

    def start(self) -> None:
        """Start the clocks: ten times a second for conflation, once for pings and deadlines."""
        # The data path makes no cycles, and a connection that ends breaks its own. So the collector looks seldom, and
        # never again at what the start has made: each look at a heap of many connections is a pause for all.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        self.started = True
        self._on_grid()
        self._on_second()

    def stop(self) -> None:
        """Stop the clocks."""
        self.watch.stop()
        for stop in self._stops:
            stop()
        for timer in (*self._timers, self._batch_timer):
            if timer is not None:
                timer.cancel()

    def pass_time(self) -> None:
        """Let happen what is due: before anything is written, as the process may have stood still since it was read."""
        self.broker.pass_time(now())

    def end(self) -> None:
        """End a handler: answers leave now, messages at the end of the tick."""
        if (moment := now()) >= self.broker.timely.due:
            self.broker.timely.pass_time(moment)
        broker = self.broker
        if broker.touched or broker.before_answers is not None:
            broker.flush_answers()
        if broker.dirty:
            if not self._flush_due:  # as ``_flush_soon``, on the way of each message
                self._flush_due = True
                self.loop.call_soon(self._flush)
        elif self.latency is not None and not self.broker.writing.delayed:
            self.latency.since = 0  # what was accepted goes to nobody here

    def publish(
        self,
        principal: Principal | None,
        rows: list[Any],
        read: tuple[list[Message], dict[int, Refusal]],
        done: Done,
        source: Source | None = None,
        hold: Callable[[], None] | None = None,
    ) -> None:
        """Publish rows in order, in the name of a principal, or of Django: ``done`` gets one outcome a row.

        ``read`` has the messages that were read of them, and why others are refused, by their index. ``hold`` is called
        when ``source`` has published too much at a time to some subjects: it takes nothing more.
        """
        messages, refused = read
        if refused:
            done = self._refuse_rows(rows, refused, done, source)
        trail = self.broker.trail
        if trail is not None:
            done = trail.publication(source, messages, done) or done
        moment = now()
        if hold is not None and self.broker.interest.options.rates:
            published = [(message.subject, 1) for message in messages]
            if self.sessions.publish_rates.spend(source, published, moment):
                hold()
        self.broker.publish(principal, messages, moment, done)

    def _refuse_rows(self, rows: list[Any], refused: dict[int, Refusal], done: Done, source: Source | None) -> Done:
        """Count and note the rows that are refused before they are publications, by their index: ``done`` for the
        others."""
        self.broker.counters.refused(refused.values())
        trail = self.broker.trail
        if trail is not None:
            for index, (code, reason) in refused.items():
                trail.unread(source, rows[index], code, reason)
        return with_refusals(done, refused)

    def decide(
        self,
        token: str,
        action: str,
        subject: str,
        later: Callable[[str], None],
        address: str = "",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> str | None:
        """Return the reason why the bearer of the token may not do that, empty if it may; None: Django's hook is asked,
        and ``later`` gets it. Raises Refused for a bad token."""
        grants = self.broker.grants
        if grants.ready and self.asks is not None:
            self.asks.request(token, action, subject, later, address, headers)
            return None
        principal = grants.principal(token if grants.ready else "", now())  # before, nobody's token can be read
        return grants.check(principal, action, subject, now())

    def congest(self, congested: bool, why: int = LINKS) -> None:
        """Hold back those who publish, or let them go on when there is no other reason (LINKS or WRITES); control,
        where Django publishes, is never held back.

        Publishers are not read from at all; a client is held as soon as it has published (Publications.held).
        """
        self._congestion = self._congestion | why if congested else self._congestion & ~why
        congested = bool(self._congestion)
        if congested == self.congested:
            return
        self.congested = congested
        held = self.sessions.publications.hold(congested)
        for publisher in self.publisher_connections:
            publisher.hold(congested)
        for client in held:
            client.alive = True  # its answer to a ping may wait unread
            client.link.hold(PauseReason.CONGESTED, False)
        for told in self._eased if not congested else ():
            told()

    def go_stale(self, text: str) -> None:
        """Tell everybody, also who comes later, that nothing new comes for now, and nothing can be published."""
        if not self.stale:
            self.stale = True
            self._tell(Notice(code="stale", text=text))

    def go_fresh(self, text: str) -> None:
        """Tell that messages arrive again, when everything that was missed has been told."""
        if self.stale:
            self.pass_time()
            self.broker.finish()  # the new epochs are told before
            self.stale = False
            self._tell(Notice(code="fresh", text=text))

    def _tell(self, notice: Notice) -> None:
        for told in self._noticed:
            told(notice)
        self.sessions.announce(notice, lasts=self.stale)

    def expect(self, connection: Deadline, seconds: float) -> None:
        """Call the connection's ``expire`` after so many seconds, to within one, unless it is spared before.

        Seconds in which the loop did not run do not count, and after them it reads first.
        """
        self._deadlines[connection] = self.awake.time + seconds

    def spare(self, connection: Deadline) -> None:
        """Let a connection off its deadline: it did what it had to."""
        self._deadlines.pop(connection, None)

    def connection_opened(self) -> None:
        """Count a client, or a publisher that counts as one, which takes a place."""
        self.connections += 1

    def connection_closed(self) -> None:
        """Free the place of a connection that has closed."""
        self.connections -= 1

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until it is done; the loop itself would not."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def follow_rights(self) -> None:
        """Let connections follow rights that changed, a slice a turn of the loop."""
        if not self._stepping and self.sessions.rights.busy:
            self._stepping = True
            self.loop.call_soon(self._step)

    def follow_publishers(self) -> None:
        """Let publishers follow, too: they are few, and it is done at once."""
        moment = now()
        for publisher in tuple(self.publisher_connections):
            publisher.follow(moment)

    def _step(self) -> None:
        self._stepping = False
        self.pass_time()
        self.sessions.rights.step(now())
        self.end()
        self.follow_rights()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if (moment := now()) >= self.broker.timely.due:
            self.broker.timely.pass_time(moment)
        counters, latency = self.broker.counters, self.latency
        before = counters.messages_out - latency.collected if latency is not None else 0
        writing = self.broker.writing
        try:
            if self._batching:
                self._flush_due_batches()
            else:
                self.broker.flush()
        finally:  # a fault holds up neither the others nor those who publish
            if latency is not None and not writing.delayed:
                latency.flushed(counters.messages_out - latency.collected - before)
            if writing.behind:
                self._flush_soon()  # everybody else has a turn before
            if writing.behind or self._congestion & WRITES:
                self._hold_up(writing.crowded)

    def _hold_up(self, crowded: bool) -> None:
        """Hold what comes in faster than it can be written, where it is."""
        if crowded != bool(self._congestion & WRITES):
            self.congest(crowded, WRITES)
            for told in self._crowded:
                told(crowded)

    def _flush_due_batches(self) -> None:
        time = now()
        self.broker.flush(time)
        wait = self.broker.batches.wait_ms(time)
        timer = self._batch_timer
        if wait is not None and (timer is None or timer.when() > self.loop.time() + wait / 1000 + 0.001):
            if timer is not None:
                timer.cancel()
            self._batch_timer = self.loop.call_later(wait / 1000, self._on_batch)

    def _on_batch(self) -> None:
        self._batch_timer = None
        self._flush()

    def _on_grid(self) -> None:
        self.loop_lag.came()
        self.awake.tick(self.loop.time(), waited_seconds())
        time = now()
        self.broker.pass_time(time)
        delay = GRID_SECONDS - time % 100 / 1000 + 0.0005
        self._timers[0] = self.loop.call_later(delay, self._on_grid)
        self.loop_lag.expect(delay)
        if self.latency is not None and self.latency.since:
            self._flush()  # or what conflation brings would be measured with it
        self.broker.grid.tick(time)
        self.broker.history.expire(time)
        self.sessions.rights.tick(time)
        for told in self._each_grid:
            told(time)
        self.follow_rights()
        self.end()

    def _on_second(self) -> None:
        self._timers[1] = self.loop.call_later(1, self._on_second)
        for client in self.sessions.publications.held or ():
            client.alive = True  # what it says is not read
        self.sessions.beat(now(), self.awake.time)
        for told in self._each_second:
            told(now())
        self.follow_publishers()
        self.broker.engine.tick(now())
        self.end()
        moment = self.awake.time - (LATE_SECONDS if self.awake.late else 0)
        for connection in [one for one, deadline in self._deadlines.items() if deadline <= moment]:
            self._deadlines.pop(connection, None)
            connection.expire()
