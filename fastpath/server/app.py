"""Build one broker, open the ports, and stop cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import codecs
import importlib
import json
import logging
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.auth.hook_grants import Hooked
from ..core.broker.broker import Broker
from ..core.broker.ports import Engine
from ..core.sessions.sessions import Sessions
from ..edge.audit.recorder import Audit
from ..edge.clients.backlogs import Recovering
from ..edge.clients.liveness import Moving
from ..edge.clients.quotas import Limiter
from ..edge.control.actions import Operating
from ..edge.control.client_detail import Inspecting
from ..edge.control.connection import ControlConnection
from ..edge.control.find_clients import Finding
from ..edge.control.publisher_rankings import Suppliers
from ..edge.control.rankings import Top
from ..edge.control.subject_branches import Branches
from ..edge.control.subject_detail import Exploring
from ..edge.control.subjects import Subjects
from ..edge.control.traces import Tracing
from ..edge.hooks.gateway import Asks
from ..edge.listen.control_socket import open_control
from ..edge.listen.key_file import KeyFile
from ..edge.listen.listeners import Ports
from ..edge.listen.reload import Reload
from ..edge.runtime.hub import Hub, now
from ..edge.runtime.socket_writer import SocketWriter
from ..edge.telemetry.bounds import Bounds
from ..edge.telemetry.figures import Statistics
from ..edge.telemetry.health import Readiness
from ..edge.telemetry.http_endpoint import Health, MetricsConnection
from ..edge.telemetry.samples import Samples
from ..edge.workers.drain import Drain
from ..edge.workers.follower import Follower
from ..edge.workers.heartbeat import Pulse
from ..edge.workers.leader import Links
from ..engine.follower import FollowerEngine
from ..engine.memory import MemoryEngine
from ..listen_address import Listener
from ..logs import formats
from ..settings import Settings
from . import failpoints, privileges, systemd
from .engines import begin, end, make_engine
from .modes import make_grants
from .presence import Part
from .watchdog import Heart

DEAF_SECONDS = 0.3
"""Signals that come so soon after another are the same one."""

log = logging.getLogger("fastpath.server")


class Cut(Exception):
    """This worker did not keep up with the first one and ended itself, so that another takes its place."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What the parent tells one of several workers; see fastpath/server/workers.py."""

    number: int
    listeners: Sequence[Listener]
    """With their real ports."""
    sockets: dict[str, socket.socket]
    """The unix sockets to listen on, by path: all workers share them."""
    links: str
    """The path of the unix socket that links the others to the first."""
    links_socket: socket.socket | None
    """It, listening, for the first worker."""
    survivors: int
    """For the first worker: how many others may still hold the state of the one before it."""
    count: int
    """How many workers there are."""
    parent: int
    """A descriptor that ends when the parent has ended."""
    report: int
    """A descriptor that takes one line when this worker serves, and its beats from then on (watchdog.py)."""


def run(settings: Settings) -> None:
    """Serve alone until SIGTERM or SIGINT; raises SettingsError when a port cannot be opened."""
    formats.begin(settings)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve_alone(settings))


def run_worker(settings: Settings, worker: Worker) -> None:
    """Serve as one of several until SIGTERM or the end of the parent; raises SettingsError, and Cut."""
    formats.begin(settings, f"worker {worker.number}", worker.number)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run((_serve_first if worker.number == 0 else _serve_other)(settings, worker))


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, or asyncio's own where uvloop does not exist (Windows)."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def preload() -> None:
    """Import what is imported late, so that workers share it, and while it can be read; no loop exists yet."""
    for encoding in ("ascii", "idna", "latin-1"):
        codecs.lookup(encoding)
    importlib.import_module("concurrent.futures.thread")
    with suppress(ImportError):
        import uvloop  # noqa: F401, PLC0415


def make_hub(settings: Settings, loop: asyncio.AbstractEventLoop, engine: Engine | None = None, worker: int = 0) -> Hub:
    """The broker with everything around it but the ports."""
    started = now()
    broker = Broker(
        engine or MemoryEngine(started),
        make_grants(settings),
        settings.limits,
        server=secrets.token_hex(8),
        started=started,
        secret=secrets.token_bytes(32),
        guaranteed=settings.delivery == "guaranteed",
        snapshots=settings.snapshots,
        own=None if engine is None or type(engine) in (MemoryEngine, FollowerEngine) else MemoryEngine(started),
    )
    broker.writer = SocketWriter()
    hub = Hub(loop, settings, broker, Sessions(broker, settings.ping_seconds))
    hub.worker = worker
    for look in (Finding, Inspecting, Operating, Exploring, Tracing, Recovering):
        look(hub)
    if settings.token_keys and broker.grants.keys is not None:
        hub.key_file = KeyFile(hub, settings.token_keys)
    hub.limiter = Limiter(hub)
    Moving(hub)
    hub.figures.append(lambda: {"log_dropped": formats.dropped()})
    if isinstance(broker.grants, Hooked):
        hub.asks = Asks(hub, broker.grants.asking)
    failpoints.install(hub)
    return hub


def make_ports(
    hub: Hub,
    statistics: Statistics,
    control: Callable[[Drain], ControlConnection],
    worker: Worker | None = None,
) -> tuple[Ports, Drain, Pulse]:
    """The ports, none of them open yet, what closes them for a while, and what tells others that the loop runs.

    SIGHUP reads anew what may change.
    """
    pulse = Pulse(hub, worker.count - 1 if worker is not None and worker.number == 0 else 0)
    health = Health(hub, statistics, Readiness(hub, pulse, lambda: drain.active))
    ports = Ports(
        hub,
        lambda: control(drain),
        lambda: MetricsConnection(health),
        shared=worker is not None,
        inherited=worker.sockets if worker is not None else None,
    )
    pulse.full = ports.taking_none
    Bounds(hub, ports.connections_max)
    Top(hub, statistics)
    Suppliers(hub, statistics)
    drain = Drain(hub, ports, worker.count if worker is not None else 1)
    reload = Reload(hub, ports)
    hub.loop.add_signal_handler(signal.SIGHUP, reload.here)
    return ports, drain, pulse


def _open(ports: Ports, listeners: Sequence[Listener], *purposes: str) -> None:
    for listener in listeners:
        if not listener.purposes.isdisjoint(purposes):
            ports.open(listener)


async def _serve_alone(settings: Settings) -> None:
    told = Told(signal.SIGTERM, signal.SIGINT)
    engine = make_engine(settings)
    hub = make_hub(settings, asyncio.get_running_loop(), engine)
    statistics = Statistics(hub)
    Subjects(hub)
    samples = Samples(hub, statistics)
    Branches(hub)
    ports, drain, pulse = make_ports(hub, statistics, lambda drain: ControlConnection(hub, statistics, drain=drain))
    _open(ports, settings.listeners, "metrics")
    await begin(engine, hub, statistics, told.wait)
    if told.count:
        ports.close()
        await end(engine)
        return
    Audit(hub, 0, 1, statistics.own)
    part = Part(hub, engine)
    _open(ports, settings.listeners, "clients", "publishers", "control")
    control = await open_control(settings.control, ports.control) if settings.control else None
    hub.start()
    statistics.start()
    samples.start()
    print("ready " + json.dumps(ready(settings, ports.opened)), flush=True)
    systemd.tell("READY=1")
    pulse.start(lambda: systemd.tell("WATCHDOG=1"))
    await told.wait()
    systemd.tell("STOPPING=1")
    await _close(hub, drain, ports, told, control)
    statistics.stop()
    await part.end()
    await end(engine)


async def _serve_first(settings: Settings, worker: Worker) -> None:
    """The worker that numbers: it alone has the publishers' ports and the control socket."""
    told = _until_told(worker)
    engine = make_engine(settings)
    hub = make_hub(settings, asyncio.get_running_loop(), engine)
    assert worker.links_socket is not None
    links = Links(hub, worker.links_socket)
    statistics = Statistics(hub)
    Subjects(hub)
    samples = Samples(hub, statistics)
    Branches(hub)
    ports, drain, pulse = make_ports(
        hub, statistics, lambda drain: ControlConnection(hub, statistics, links, drain), worker
    )
    _open(ports, worker.listeners, "metrics")
    restored = await begin(engine, hub, statistics, told.wait)
    if told.count:
        ports.close()
        await end(engine)
        return
    statistics.others, statistics.ended, statistics.gone = links.figures, links.ended, links.gone
    if hub.limiter is not None:
        hub.limiter.others = links.figures
    Audit(hub, 0, worker.count, statistics.own)
    part = Part(hub, engine, worker.links, survivors=worker.survivors)
    drain.passed_on = links.pass_on
    await links.resume(worker.survivors, engine if isinstance(engine, MemoryEngine) and not restored else None)
    # Rights may change from here on: the others serve already, and follow.
    control = await open_control(settings.control, ports.control) if settings.control else None
    _open(ports, worker.listeners, "control")
    if worker.survivors:
        await links.copied()
    _open(ports, worker.listeners, "clients", "publishers")
    hub.start()
    statistics.start()
    samples.start()
    _report(worker, pulse, ready(settings, ports.opened))
    await told.wait()
    await _close(hub, drain, ports, told, control, links)
    statistics.stop()
    await part.end()
    await end(engine)


async def _serve_other(settings: Settings, worker: Worker) -> None:
    """A worker that follows the first one: it has clients only."""
    told = _until_told(worker)
    engine = FollowerEngine()
    hub = make_hub(settings, asyncio.get_running_loop(), engine, worker.number)
    was_cut = False

    def cut() -> None:
        nonlocal was_cut
        was_cut = told.at_once = True
        told.stop()

    follower = Follower(hub, engine, worker.number, worker.links, cut)
    statistics = Statistics(hub, worker.number, follower.report)
    Audit(hub, worker.number, worker.count, statistics.own)
    part = Part(hub, engine, worker.links, worker.number)
    ports, drain, pulse = make_ports(hub, statistics, lambda drain: ControlConnection(hub, statistics), worker)
    follower.drain = drain.obey
    follower.start()
    hub.start()
    copied = asyncio.create_task(follower.copied.wait())
    ended = asyncio.create_task(told.wait())
    await asyncio.wait((copied, ended), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        _open(ports, worker.listeners, "clients")
        statistics.start()
        _report(worker, pulse, {})
        await ended
    copied.cancel()
    if was_cut:
        follower.stop()
    await _close(hub, drain, ports, told)
    await part.end()
    follower.stop()
    statistics.stop()
    if was_cut:
        raise Cut


def ready(settings: Settings, opened: dict[str, list[str]]) -> dict[str, Any]:
    """What the line ``ready {…}`` says."""
    privileges.warn()
    log.info(
        "mode %s, delivery %s, clients %s, publishers %s",
        settings.mode,
        settings.delivery,
        ", ".join(opened["clients"]),
        ", ".join(opened["publishers"]),
    )
    return {
        "clients": opened["clients"],
        "publishers": opened["publishers"],
        "control": settings.control,
        "control_tls": opened["control"],
        "metrics": opened["metrics"],
        "pid": os.getpid(),
    }


def _report(worker: Worker, pulse: Pulse, answer: dict[str, Any]) -> None:
    """Tell the parent from now on each second that this worker is alive, and that it serves."""
    heart = Heart(worker.report)
    pulse.start(heart.beat)
    heart.say(json.dumps(answer))


class Told:
    """How often this process was told to stop; ``wait`` for the first time."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.count = 0
        self.at_once = False
        self._deaf_until = 0.0
        self._stopped = asyncio.Event()
        self.wait = self._stopped.wait
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, self.stop)

    def stop(self) -> None:
        """Be told once more; what a service manager sends to all processes and the parent hands on is one signal."""
        moment = asyncio.get_running_loop().time()
        if moment >= self._deaf_until:
            self._deaf_until = moment + DEAF_SECONDS
            self.count += 1
            self._stopped.set()


def _until_told(worker: Worker) -> Told:
    """To stop: on SIGTERM, and when the parent is no more. Of a Ctrl-C the parent tells us, in its order."""
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = Told(signal.SIGTERM)

    def orphaned() -> None:
        loop.remove_reader(worker.parent)
        log.error("the parent process is gone: stopping")
        shutil.rmtree(Path(worker.links).parent, ignore_errors=True)
        told.at_once = True  # the workers of another parent need the ports
        told.stop()

    loop.add_reader(worker.parent, orphaned)
    return told


async def _close(
    hub: Hub,
    drain: Drain,
    ports: Ports,
    told: Told,
    control: asyncio.Server | None = None,
    links: Links | None = None,
) -> None:
    """While clients have their turns, control and the links go on: rights and messages reach them to the end."""
    signals, others = lambda: told.count, links.count if links is not None and not told.at_once else lambda: 0
    if not told.at_once:
        await drain.turns(signals, others)
    ports.close()
    if control is not None:
        control.close()
        Path(hub.settings.control).unlink(missing_ok=True)
    for connection in list(hub.control_connections):
        connection.close()  # what it would be told from now on is not kept
    await drain.end(signals, others)
    if links is not None:
        links.close()
    hub.stop()
