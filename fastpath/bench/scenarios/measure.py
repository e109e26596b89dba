"""One scenario against one server: connect, wait until all is subscribed, publish, measure."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..load.dialects import Dialect, Fastpath, Floor, FloorAll, fastpath
from ..load.drive import Load, Progress
from ..load.publishing import LoadPublisher, PortLoadPublisher
from ..load.sockets import Sockets, TlsSockets
from ..load.swarm import Swarm
from ..servers import fastpath_server
from ..servers.fastpath_server import MeasuredServer
from .result import Result, beside, result
from .scenarios import Scenario


@dataclass(frozen=True)
class RunOptions:
    """The options of a run besides its scenario; cores are None where they are not pinned."""

    form: str = "json"
    publish_via: str = ""
    """"port" or "ws"; empty: as the scenario has it."""
    workers: int = 1
    tls: bool = False
    floor: str = ""
    server_core: int | None = None
    load_core: int | None = None
    sample_every: int = 20
    settings: dict[str, str] = field(default_factory=dict)
    command: str = ""
    progress: Progress | None = None
    slow: str = ""
    """Policy that subscriptions ask for in case that they lag (protocol.md 3.2)."""

    @property
    def shown(self) -> dict[str, str]:
        """The generator's own part of a result's settings."""
        cores = {"server core": str(self.server_core), "load core": str(self.load_core)}
        return cores if self.server_core is not None else {"cores": "not pinned"}


def cores(server_core: int | None, load_core: int | None) -> tuple[int | None, int | None]:
    """Return the two cores if this process may use both; None where the machine has only one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, None
    return (allowed[0] if server_core is None else server_core, allowed[1] if load_core is None else load_core)


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Pin this process to one core for a while."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure_own(scenario: Scenario, options: RunOptions, **dialect: Any) -> Result:
    """Measure the sidecar, which is started for that."""
    with fastpath_server.sidecar(
        options.server_core, workers=options.workers, tls=options.tls, settings=options.settings
    ) as server:
        return measure_server(scenario, server, options, **dialect)


def measure_server(scenario: Scenario, server: MeasuredServer, options: RunOptions, **dialect: Any) -> Result:
    """Measure a sidecar that runs."""
    spoken = fastpath(options.form, server.token, **dialect)
    shown = {"settings": server.settings | options.shown, "command": options.command}
    with loaded(scenario, server, spoken, options) as load:
        return run(scenario, load) | shown


def measure_floor(scenario: Scenario, options: RunOptions) -> Result:
    """Measure the bare C program."""
    dialect = FloorAll() if scenario.interest == "all" else Floor()
    with (
        fastpath_server.floor(options.floor, scenario.coalesces, options.server_core) as server,
        loaded(scenario, server, dialect, options) as load,
    ):
        return run(scenario, load)


def measure_beside(scenario: Scenario, options: RunOptions) -> Result:
    """Measure the sidecar and, if there is one, the floor right after it with the same generator."""
    own = measure_own(scenario, options)
    if not options.floor:
        return own
    return beside(own, measure_floor(scenario, options), options.floor, scenario.coalesces)


@contextlib.contextmanager
def loaded(
    scenario: Scenario, server: MeasuredServer, dialect: Dialect, options: RunOptions, tracked: Iterable[int] = ()
) -> Iterator[Load]:
    """Yield a connected swarm with its publishers, on the load's core; ``tracked`` are read in full besides the
    sample."""
    with pinned(options.load_core):
        sockets = sockets_for(server, options.tls)
        swarm = Swarm(dialect, sockets, scenario.plan(), sample_every=options.sample_every, tracked=tracked)
        outlets: list[LoadPublisher] = []
        try:
            swarm.connect()
            outlets = publishers(scenario, server, dialect, swarm, options)
            yield Load(swarm, outlets, scenario.subjects, scenario.size, server.pids, options.progress)
        finally:
            for outlet in outlets:
                outlet.close()
            swarm.close()


def sockets_for(server: MeasuredServer, tls: bool) -> Sockets:
    """Return sockets: plain, or TLS that takes the server's certificate as it is, as it is the generator's own."""
    if not tls or server.name != "fastpath":
        return Sockets(server.host, server.port)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return TlsSockets(server.host, server.port, context, "localhost")


def publishers(
    scenario: Scenario, server: MeasuredServer, dialect: Dialect, swarm: Swarm, options: RunOptions
) -> list[LoadPublisher]:
    """Connect the publishers: one, or with pairs one a subject."""
    outlets: list[LoadPublisher] = []
    for number in range(scenario.subjects if scenario.pairs else 1):
        if server.name == "fastpath" and (options.publish_via or scenario.publish_via) == "port":
            sockets = Sockets(server.host, server.publisher_port)
            outlets.append(PortLoadPublisher(swarm, dialect, sockets, number, server.publisher_token()))
        else:
            speaks = dialect
            if isinstance(dialect, Fastpath):
                speaks = Fastpath(dialect.form, lambda _number: server.publisher_token())
            outlets.append(LoadPublisher(swarm, speaks, sockets_for(server, options.tls), number, [number]))
    return outlets


def run(scenario: Scenario, load: Load, *, ready: bool = False, collect: Callable[[], None] | None = None) -> Result:
    """Publish and measure what is connected; ``ready`` when the barrier has been passed. ``collect`` is called before
    the sampled connections' figures are read."""
    if not ready:
        load.barrier()
    if scenario.window:
        measured = load.window(scenario.window, scenario.warmup_s, scenario.duration_s)
    else:
        measured = load.rate(scenario.rate, scenario.warmup_s, scenario.duration_s, burst=scenario.burst)
    connections = load.swarm.active
    if collect is not None:
        collect()
    return result(
        scenario.name, scenario.title, load.swarm, measured, load.pids,
        connections=connections, subjects=scenario.subjects, payload_bytes=scenario.size,
    )  # fmt: skip
