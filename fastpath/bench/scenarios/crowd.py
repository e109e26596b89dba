"""F10: more connections than one process may have files, on several workers, by as many load processes as it takes."""

from __future__ import annotations

import time

from ..load.crew import Crew, processes_for
from ..load.dialects import Fastpath
from ..load.drive import Load
from ..machine.processes import family
from ..machine.procfs import available_bytes, memory_bytes
from ..servers import fastpath_server
from .measure import RunOptions, pinned, publishers, run, sockets_for
from .result import Result
from .scenarios import Scenario

DELIVERIES_PER_S = 40_000
RETRIES_EACH = 2000
"""Connections a load process may open again: what waits at a worker's port is refused when it is full and closes it."""


def measure(scenario: Scenario, options: RunOptions) -> Result:
    """Connect all, then publish every subject at a rate that makes 40,000 deliveries a second in all; nothing is
    pinned, since both sides need every core.

    ``workers`` are as many as the connections need files, if not given.
    """
    workers = max(options.workers, processes_for(scenario.connections + scenario.connections // 20))
    processes = processes_for(scenario.connections)
    rate = DELIVERIES_PER_S / scenario.connections
    free = available_bytes()
    with fastpath_server.sidecar(None, workers=workers, settings=options.settings) as server, pinned(None):
        dialect = Fastpath(options.form, server.token)
        crew = Crew(
            dialect, sockets_for(server, options.tls), scenario.plan(), processes=processes,
            sample_every=options.sample_every, retries=RETRIES_EACH,
        )  # fmt: skip
        outlets = []
        try:
            begin, before = time.monotonic(), memory_bytes(server.pids)
            crew.connect()
            took = time.monotonic() - begin
            server.pids[:] = family(server.pids[0])
            connected = memory_bytes(server.pids)
            used = free - available_bytes()
            outlets = publishers(scenario, server, dialect, crew, options)
            load = Load(crew, outlets, scenario.subjects, scenario.size, server.pids, options.progress)
            found = run(scenario.changed({"rate": rate}), load, collect=crew.collect)
        finally:
            for outlet in outlets:
                outlet.close()
            crew.close()
        shown = server.settings | {"cores": "not pinned"}
    return found | {
        "connects_per_s": round(scenario.connections / took, 1),
        "memory_per_connection_bytes": round((connected - before) / scenario.connections, 1),
        "machine_bytes_per_connection": round(used / scenario.connections, 1),
        "workers": workers,
        "load_processes": processes,
        "closed": crew.closed,
        "settings": shown,
        "command": options.command,
    }
