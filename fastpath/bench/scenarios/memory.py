"""F8: what an idle subscribed connection takes of the server's memory, and what a subject with a snapshot takes."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..load.dialects import Fastpath, fastpath
from ..load.drive import Load
from ..load.sockets import BenchError
from ..load.swarm import Swarm
from ..machine.procfs import kernel_bytes, memory_bytes
from ..servers import fastpath_server
from .measure import RunOptions, loaded, pinned, publishers, sockets_for
from .result import Result
from .scenarios import Scenario

IDLE_SECONDS = 3
PUBLISH_SECONDS_MAX = 60
WEBSOCKET_FORMS = ("json", "msgpack")

NAMES = 100
"""Subjects that the connections share."""


def measure(scenario: Scenario, options: RunOptions) -> Result:
    """Measure ``memory_per_connection_bytes`` of the server's own memory, the kernel's part of both ends beside it; and
    ``memory_per_subject_bytes`` beyond content and name, without history and with the one message cached."""
    connected = _connections(scenario, options)
    bare = _subjects(scenario, options, {"cache_messages": "0"})
    cached = _subjects(scenario, options, {})
    return connected | {
        "subjects": scenario.subjects,
        "payload_bytes": scenario.size,
        "memory_per_subject_bytes": bare,
        "memory_per_subject_cached_bytes": cached,
        "lost": 0,
        "doubled": 0,
        "reordered": 0,
        "form": options.form,
        "command": options.command,
    }


def _connections(scenario: Scenario, options: RunOptions) -> Result:
    with (
        fastpath_server.sidecar(options.server_core, workers=options.workers, settings=options.settings) as server,
        loaded(scenario.changed({"connections": 200, "subjects": NAMES}), server, _reading(server, options), options),
        pinned(options.load_core),
    ):
        # The first two hundred pay for what there is once.
        plan = scenario.changed({"subjects": NAMES}).plan()
        swarm = Swarm(_reading(server, options), sockets_for(server, options.tls), plan, first=1000)
        before, kernel, cpu = memory_bytes(server.pids), kernel_bytes(), time.monotonic()
        try:
            swarm.connect()
            took = time.monotonic() - cpu
            end = time.monotonic() + IDLE_SECONDS
            while time.monotonic() < end:
                swarm.poll(0.1)
            after, kernel = memory_bytes(server.pids), kernel_bytes() - kernel
        finally:
            swarm.close()
    return {
        "scenario": scenario.name,
        "title": scenario.title,
        "connections": len(plan),
        "sampled_connections": len(swarm.tracks),
        "connects_per_s": round(len(plan) / took, 1),
        "duration_s": round(took, 3),
        "server_pids": server.pids,
        "server_memory_bytes": after,
        "memory_per_connection_bytes": round((after - before) / len(plan), 1),
        "kernel_per_connection_bytes": round(kernel / len(plan), 1),
        "settings": server.settings | options.shown,
    }


def _subjects(scenario: Scenario, options: RunOptions, settings: Mapping[str, str]) -> float:
    """Return what each subject's snapshot adds, less its content and its name."""
    one = scenario.changed({"connections": 1, "interest": "one"})
    with fastpath_server.sidecar(options.server_core, settings=options.settings | dict(settings)) as server:
        dialect = _dialect(server, options)
        swarm = Swarm(dialect, sockets_for(server, False), [[0]])
        outlets = publishers(one.changed({"publish_via": "port"}), server, dialect, swarm, options)
        load = Load(swarm, outlets, scenario.subjects, scenario.size, server.pids)
        try:
            swarm.connect()
            load.turn(0.5)
            before = memory_bytes(server.pids)
            for at in range(0, scenario.subjects, 1000):
                load.when_room()
                load.publish(range(at, min(at + 1000, scenario.subjects)))
            end = time.monotonic() + PUBLISH_SECONDS_MAX
            while not all(outlet.quiet for outlet in outlets):
                load.turn(0.1)
                if time.monotonic() > end:
                    raise BenchError(f"the server did not acknowledge all within {PUBLISH_SECONDS_MAX} s")
            load.turn(1)
            after = memory_bytes(server.pids)
        finally:
            load.close()
    names = sum(len(name) for name in load.names) / scenario.subjects
    return round((after - before) / scenario.subjects - scenario.size - names, 1)


def _reading(server: fastpath_server.MeasuredServer, options: RunOptions) -> Fastpath:
    """Return the dialect of the connections, in whichever form they read."""
    return fastpath(options.form, server.token)


def _dialect(server: fastpath_server.MeasuredServer, options: RunOptions) -> Fastpath:
    return Fastpath(options.form if options.form in WEBSOCKET_FORMS else "json", server.token)
