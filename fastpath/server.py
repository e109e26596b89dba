"""Build one broker, open the ports, and stop cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import faults
from .core.broker import Broker
from .core.grants import Grants
from .core.grants_jwt import JwtGrants
from .core.grants_rules import RuleGrants
from .core.interfaces import Engine
from .core.sessions import Sessions
from .edge.control import ControlConnection
from .edge.control_socket import open_control
from .edge.drain import Drain
from .edge.figures import Statistics
from .edge.flush import SocketWriter
from .edge.hub import Hub, now
from .edge.link_first import Links
from .edge.link_follower import Follower
from .edge.listeners import Ports
from .engine.follower import FollowerEngine
from .engine.memory import MemoryEngine
from .engines import begin, end, make_engine
from .listener import Listener
from .settings import Settings

DEAF_SECONDS = 0.3
"""Signals that come so soon after another are the same one."""

log = logging.getLogger("fastpath")


class Cut(Exception):
    """This worker did not keep up with the first one and ended itself, so that another takes its place."""


@dataclass(frozen=True, slots=True)
class Worker:
    """What the parent tells one of several workers; see workers.py."""

    number: int
    listeners: Sequence[Listener]
    """With their real ports."""
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
    """A descriptor that takes one line when this worker serves."""


def run(settings: Settings) -> None:
    """Serve alone until SIGTERM or SIGINT; raises SettingsError when a port cannot be opened."""
    log_to_stderr(settings)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve_alone(settings))


def run_worker(settings: Settings, worker: Worker) -> None:
    """Serve as one of several until SIGTERM or the end of the parent; raises SettingsError, and Cut."""
    log_to_stderr(settings, f"worker {worker.number} ")
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run((_serve_first if worker.number == 0 else _serve_other)(settings, worker))


def log_to_stderr(settings: Settings, who: str = "") -> None:
    """Every process writes its log to the standard error; ``who`` tells the workers apart."""
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format=f"%(asctime)s %(levelname)s {who}%(name)s %(message)s",
        force=True,
    )


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, or asyncio's own where uvloop does not exist (Windows)."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def preload() -> None:
    """Import what is imported late, so that workers share it; no loop exists yet."""
    with suppress(ImportError):
        import uvloop  # noqa: F401, PLC0415


def make_hub(settings: Settings, loop: asyncio.AbstractEventLoop, engine: Engine | None = None) -> Hub:
    """The broker with everything around it but the ports."""
    started = now()
    grants = Grants()
    if settings.mode != "none":
        grants = (JwtGrants if settings.mode == "jwt" else RuleGrants)(settings.token_secret)
    broker = Broker(
        engine or MemoryEngine(started),
        grants,
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
    faults.install(hub)
    return hub


async def _serve_alone(settings: Settings) -> None:
    told = Told(signal.SIGTERM, signal.SIGINT)
    engine = make_engine(settings)
    hub = make_hub(settings, asyncio.get_running_loop(), engine)
    statistics = Statistics(hub)
    await begin(engine, hub, statistics, told.wait)
    if told.count:
        await end(engine)
        return
    ports = Ports(hub, lambda: ControlConnection(hub, statistics, drain=drain))
    drain = Drain(hub, ports)
    for listener in settings.listeners:
        await ports.open(listener)
    control = await open_control(settings.control, ports.control) if settings.control else None
    hub.start()
    statistics.start()
    print("ready " + json.dumps(ready(settings, ports.opened)), flush=True)
    await told.wait()
    await _close(hub, drain, ports, told, control)
    statistics.stop()
    await end(engine)


async def _serve_first(settings: Settings, worker: Worker) -> None:
    """The worker that numbers: it alone has the publishers' ports and the control socket."""
    told = _until_told(worker)
    engine = make_engine(settings)
    hub = make_hub(settings, asyncio.get_running_loop(), engine)
    assert worker.links_socket is not None
    links = Links(hub, worker.links_socket)
    statistics = Statistics(hub)
    restored = await begin(engine, hub, statistics, told.wait)
    if told.count:
        await end(engine)
        return
    statistics.others, statistics.gone = links.figures, links.gone
    ports = Ports(hub, lambda: ControlConnection(hub, statistics, links, drain), shared=True)
    drain = Drain(hub, ports, worker.count)
    drain.passed_on = links.pass_on
    await links.resume(worker.survivors, engine if isinstance(engine, MemoryEngine) and not restored else None)
    # Rights may change from here on: the others serve already, and follow.
    control = await open_control(settings.control, ports.control) if settings.control else None
    for listener in worker.listeners:
        if "control" in listener.purposes:
            await ports.open(listener)
    if worker.survivors:
        await links.copied()
    for listener in worker.listeners:
        if "control" not in listener.purposes:
            await ports.open(listener)
    hub.start()
    statistics.start()
    _report(worker, ready(settings, ports.opened))
    await told.wait()
    await _close(hub, drain, ports, told, control, links)
    statistics.stop()
    await end(engine)


async def _serve_other(settings: Settings, worker: Worker) -> None:
    """A worker that follows the first one: it has clients only."""
    told = _until_told(worker)
    engine = FollowerEngine()
    hub = make_hub(settings, asyncio.get_running_loop(), engine)
    was_cut = False

    def cut() -> None:
        nonlocal was_cut
        was_cut = told.at_once = True
        told.stop()

    follower = Follower(hub, engine, worker.number, worker.links, cut)
    statistics = Statistics(hub, worker.number, follower.report)
    ports = Ports(hub, lambda: ControlConnection(hub, statistics), shared=True)
    drain = Drain(hub, ports, worker.count)
    follower.drain = drain.obey
    follower.start()
    hub.start()
    copied = asyncio.create_task(follower.copied.wait())
    ended = asyncio.create_task(told.wait())
    await asyncio.wait((copied, ended), return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        for listener in worker.listeners:
            if "clients" in listener.purposes:
                await ports.open(listener)
        statistics.start()
        _report(worker, {})
        await ended
    copied.cancel()
    if was_cut:
        follower.stop()
    await _close(hub, drain, ports, told)
    follower.stop()
    statistics.stop()
    if was_cut:
        raise Cut


def ready(settings: Settings, opened: dict[str, list[str]]) -> dict[str, Any]:
    """What the line ``ready {…}`` says."""
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
        "pid": os.getpid(),
    }


def _report(worker: Worker, answer: dict[str, Any]) -> None:
    """Tell the parent that this worker serves."""
    with os.fdopen(worker.report, "w") as report:
        report.write(json.dumps(answer) + "\n")


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
