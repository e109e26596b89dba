"""Build one broker, open the ports, and stop cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
import socket
import stat
import sys
from pathlib import Path

from .core.broker import Broker
from .core.errors import Close
from .core.grants import Grants, JwtGrants, RuleGrants
from .core.sessions import Sessions
from .edge.control import ControlConnection
from .edge.figures import Statistics
from .edge.flush import SocketWriter
from .edge.hub import Hub, now
from .edge.listeners import Ports
from .engine.memory import MemoryEngine
from .settings import Settings, SettingsError

STOP_SECONDS = 2
"""How long a stopping server waits for its clients to take the close frame."""

log = logging.getLogger("fastpath")


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raises SettingsError when a port cannot be opened."""
    logging.basicConfig(
        stream=sys.stderr, level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(settings))


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, or asyncio's own where uvloop does not exist (Windows)."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def make_hub(settings: Settings, loop: asyncio.AbstractEventLoop) -> Hub:
    """The broker with everything around it but the ports."""
    started = now()
    grants = Grants()
    if settings.mode != "none":
        grants = (JwtGrants if settings.mode == "jwt" else RuleGrants)(settings.token_secret)
    broker = Broker(
        MemoryEngine(started),
        grants,
        settings.limits,
        server=secrets.token_hex(8),
        started=started,
        secret=secrets.token_bytes(32),
        guaranteed=settings.delivery == "guaranteed",
        snapshots=settings.snapshots,
    )
    broker.writer = SocketWriter()
    return Hub(loop, settings, broker, Sessions(broker, settings.ping_seconds))


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    hub = make_hub(settings, loop)
    statistics = Statistics(hub)
    ports = Ports(hub, lambda: ControlConnection(hub, statistics.figures))
    for listener in settings.listeners:
        await ports.open(listener)
    control = await _open_control(hub, statistics, settings.control) if settings.control else None
    hub.start()
    statistics.start()
    ready = {
        "clients": ports.opened["clients"],
        "publishers": ports.opened["publishers"],
        "control": settings.control,
        "control_tls": ports.opened["control"],
        "pid": os.getpid(),
    }
    print("ready " + json.dumps(ready), flush=True)
    log.info(
        "mode %s, delivery %s, clients %s, publishers %s",
        settings.mode,
        settings.delivery,
        ", ".join(ports.opened["clients"]),
        ", ".join(ports.opened["publishers"]),
    )
    await stopped.wait()
    statistics.stop()
    ports.close()
    if control is not None:
        control.close()
        Path(settings.control).unlink(missing_ok=True)
    await _drain(hub)


async def _drain(hub: Hub) -> None:
    """Tell every client and publisher to reconnect, and wait a little for them to hear it and go."""
    log.info("stopping: %d clients", len(hub.sessions.clients))
    for publisher in list(hub.publisher_connections):
        publisher.drain()
    for client in list(hub.sessions.clients):
        client.link.close(Close.DRAIN, "drain: the server is stopping; reconnect")
    deadline = hub.loop.time() + STOP_SECONDS
    while hub.connections + len(hub.publisher_connections) and hub.loop.time() < deadline:  # noqa: ASYNC110 - once
        await asyncio.sleep(0.02)
    hub.stop()


async def _open_control(hub: Hub, statistics: Statistics, path: str) -> asyncio.Server:
    """Listen on the unix socket; a socket file that nobody serves any more is replaced."""
    file = Path(path)
    try:
        if file.exists():
            if not stat.S_ISSOCK(file.stat().st_mode):
                raise SettingsError(f"FASTPATH_CONTROL: {path} exists and is no socket")
            if _is_served(path):
                raise SettingsError(f"FASTPATH_CONTROL: another sidecar serves {path}")
            file.unlink()
        before = os.umask(0o177)
        try:
            return await hub.loop.create_unix_server(lambda: ControlConnection(hub, statistics.figures), path)
        finally:
            os.umask(before)
    except OSError as error:
        raise SettingsError(f"FASTPATH_CONTROL: cannot listen on {path}: {error}") from None


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
