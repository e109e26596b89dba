"""Build one broker, open the ports, and stop cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import codecs
import importlib
import json
import logging
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..edge.audit.recorder import Audit
from ..edge.listen.control_socket import open_control
from ..edge.workers.follower import Follower
from ..edge.workers.leader import Links
from ..engine import registry
from ..engine.base import Engine
from ..logs import formats
from ..settings import Settings
from . import privileges, systemd
from .components import Node, Worker, make_runtime
from .engines import begin, keep_sessions, make_engine
from .presence import PresenceComponent
from .publisher_services import PublisherServices
from .tracing import check_tracing
from .watchdog import Heart

DEAF_SECONDS = 0.3
"""Signals that come so soon after another are the same one."""

log = logging.getLogger("fastpath.server")


class Cut(Exception):
    """The error of a worker that did not keep up with the first one and ends, so that another takes its place."""


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
    """Return a loop of uvloop's, or asyncio's own where uvloop does not exist (Windows)."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.SelectorEventLoop()  # Windows would have another one, which watches no sockets
    return uvloop.new_event_loop()


def preload(settings: Settings) -> None:
    """Import what is imported late, so that workers share it, and while it can be read: the user who is to serve need
    not be able to. No loop exists yet."""
    registry.engine_class(settings)
    check_tracing(settings)
    for encoding in ("ascii", "idna", "latin-1"):
        codecs.lookup(encoding)
    importlib.import_module("concurrent.futures.thread")
    with suppress(ImportError):
        import uvloop  # noqa: F401, PLC0415


async def _serve_alone(settings: Settings) -> None:
    told = Told(signal.SIGTERM, signal.SIGINT)
    engine = make_engine(settings)
    runtime = make_runtime(settings, asyncio.get_running_loop(), engine)
    node = Node(runtime)
    _reload_on_signal(node)
    node.open(settings.listeners, "metrics")
    await begin(engine, runtime, told.wait)
    services = PublisherServices(runtime, engine)
    if told.count:
        await _give_up(node, services, engine)
        return
    part = _begin(node, engine)
    keep_sessions(engine, runtime)
    node.open(settings.listeners, "clients", "publishers", "control", "mqtt")
    control = await open_control(settings.control, node.ports.control) if settings.control else None
    runtime.start()
    node.start()
    print("ready " + json.dumps(ready(settings, node.ports.opened)), flush=True)
    systemd.tell("READY=1")
    node.beat(lambda: systemd.tell("WATCHDOG=1"))
    await told.wait()
    systemd.tell("STOPPING=1")
    await _close(node, told, control)
    await _end(node, part, services, engine)


async def _serve_first(settings: Settings, worker: Worker) -> None:
    """Serve as the worker that numbers: the first worker alone has the publishers' ports and the control socket."""
    told = _until_told(worker)
    engine = make_engine(settings)
    runtime = make_runtime(settings, asyncio.get_running_loop(), engine)
    assert worker.links_socket is not None
    links = Links(runtime, worker.links_socket)
    node = Node(runtime, worker, links)
    _reload_on_signal(node)
    node.open(worker.listeners, "metrics")
    await begin(engine, runtime, told.wait)
    services = PublisherServices(runtime, engine)
    if told.count:
        await _give_up(node, services, engine)
        return
    part = _begin(node, engine, worker)
    keep_sessions(engine, runtime)
    await links.resume(worker.survivors, None if engine.keeps else engine.numbering)
    # Rights may change from here on: the others serve already, and follow.
    control = await open_control(settings.control, node.ports.control) if settings.control else None
    node.open(worker.listeners, "control")
    if worker.survivors:
        await links.copied()
    node.open(worker.listeners, "clients", "publishers", "mqtt")
    runtime.start()
    node.start()
    _report(worker, node, ready(settings, node.ports.opened))
    await told.wait()
    await _close(node, told, control, links)
    await _end(node, part, services, engine)


async def _serve_other(settings: Settings, worker: Worker) -> None:
    """Serve as a worker that follows the first worker: it has clients only."""
    told = _until_told(worker)
    engine = registry.FollowerEngine()
    runtime = make_runtime(settings, asyncio.get_running_loop(), engine, worker.number)
    was_cut = False

    def cut() -> None:
        nonlocal was_cut
        was_cut = True
        told.stop_at_once()

    follower = Follower(runtime, engine, worker.number, worker.links, cut)
    node = Node(runtime, worker, follower)
    _reload_on_signal(node)
    part = _begin(node, engine, worker)
    follower.start()
    runtime.start()
    copied = asyncio.create_task(follower.copied.wait())
    ended = asyncio.create_task(told.wait())
    await asyncio.wait((copied, ended), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        node.open(worker.listeners, "clients")
        node.start()
        _report(worker, node, {})
        await ended
    copied.cancel()
    if was_cut:
        follower.stop()
    await _close(node, told)
    await part.end()
    follower.stop()
    node.statistics.stop()
    if was_cut:
        raise Cut


def _reload_on_signal(node: Node) -> None:
    """Read anew at SIGHUP what may change."""
    if hasattr(signal, "SIGHUP"):  # not on Windows
        on_signal(node.runtime.loop, signal.SIGHUP, node.reload.here)


def on_signal(loop: asyncio.AbstractEventLoop, number: int, call: Callable[[], object]) -> None:
    """Have the loop call when the signal comes."""
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:  # Windows, where it comes between two instructions; the loop wakes each second
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(call) and None)


def _begin(node: Node, engine: Engine, worker: Worker | None = None) -> PresenceComponent:
    """Begin the audit and presence: what the engine keeps is known."""
    runtime = node.runtime
    audit = Audit(runtime, runtime.workers.number, worker.count if worker is not None else 1, node.statistics.own)
    links, survivors = (worker.links, worker.survivors) if worker is not None else ("", 0)
    part = PresenceComponent(
        runtime, engine, links, runtime.workers.number, survivors if not runtime.workers.number else 0
    )
    runtime.serve(audit, *part.components)
    part.start()
    return part


async def _give_up(node: Node, services: PublisherServices, engine: Engine) -> None:
    """Stop the process before it serves."""
    node.ports.close()
    await services.end()
    await engine.stop()


async def _end(node: Node, part: PresenceComponent, services: PublisherServices, engine: Engine) -> None:
    node.statistics.stop()
    await part.end()
    await services.end()
    await engine.stop()


def ready(settings: Settings, opened: dict[str, list[str]]) -> dict[str, Any]:
    """Return the content of the line ``ready {…}``."""
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
        "mqtt": opened["mqtt"],
        "pid": os.getpid(),
    }


def _report(worker: Worker, node: Node, answer: dict[str, Any]) -> None:
    """Tell the parent from now on each second that this worker is alive, and that it serves."""
    heart = Heart(worker.report)
    node.beat(heart.beat)
    heart.say(json.dumps(answer))


class Told:
    """The count of how often this process was told to stop; ``wait`` for the first time."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self.count = 0
        self.at_once = False
        self._deaf_until = 0.0
        self._stopped = asyncio.Event()
        self.wait = self._stopped.wait
        for number in numbers:
            on_signal(asyncio.get_running_loop(), number, self.stop)

    def stop_at_once(self) -> None:
        """Be told, and wait for nobody."""
        self.at_once = True
        self.stop()

    def stop(self) -> None:
        """Be told once more; what a service manager sends to all processes and the parent hands on is one signal."""
        moment = asyncio.get_running_loop().time()
        if moment >= self._deaf_until:
            self._deaf_until = moment + DEAF_SECONDS
            self.count += 1
            self._stopped.set()


def _until_told(worker: Worker) -> Told:
    """Return what tells to stop: SIGTERM, and the end of the parent. Of a Ctrl-C the parent tells us, in its order."""
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = Told(signal.SIGTERM)

    def orphaned() -> None:
        loop.remove_reader(worker.parent)
        log.error("the parent process is gone: stopping")
        shutil.rmtree(Path(worker.links).parent, ignore_errors=True)
        told.stop_at_once()  # the workers of another parent need the ports

    loop.add_reader(worker.parent, orphaned)
    return told


async def _close(node: Node, told: Told, control: asyncio.Server | None = None, links: Links | None = None) -> None:
    """Close in order: while clients have their turns, control and links go on, and rights and messages reach them."""
    runtime, drain, ports = node.runtime, node.drain, node.ports
    signals, others = lambda: told.count, links.count if links is not None and not told.at_once else lambda: 0
    if not told.at_once:
        await drain.turns(signals, others)
    ports.close()
    if control is not None:
        control.close()
        Path(runtime.settings.control).unlink(missing_ok=True)
    for connection in list(runtime.control_connections):
        connection.close()  # what it would be told from now on is not kept
    await drain.end(signals, others)
    if links is not None:
        links.close()
    runtime.stop()
