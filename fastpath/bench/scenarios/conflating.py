"""F6: what conflation costs beside sending the conflated messages alone, by the same server."""

from __future__ import annotations

from ..load.dialects import Fastpath
from ..servers import fastpath_server
from .measure import RunOptions, loaded, run
from .result import Result
from .scenarios import Scenario

INTERVAL_MS = 500


def measure(scenario: Scenario, options: RunOptions) -> Result:
    """Measure conflated clients under the full rate; then plain clients that are sent each subject once an interval.

    ``ratio`` is the one cost by the other, each for a delivery; ``ratio_beyond_intake`` leaves out what the
    publications cost when only one client reads one of the subjects: receiving, numbering and storing them. Lost are
    subjects of sampled connections whose newest message did not come.
    """
    with fastpath_server.sidecar(options.server_core, workers=options.workers, settings=options.settings) as server:
        conflated = Fastpath(options.form, server.token, options={"conflation": INTERVAL_MS})
        with loaded(scenario, server, conflated, options) as load:
            load.barrier(exact=False)
            load.conflated = True
            own = run(scenario, load, ready=True)
        alone = scenario.changed({"rate": 1000 / INTERVAL_MS, "burst": True})
        with loaded(alone, server, Fastpath(options.form, server.token), options) as load:
            plain = run(alone, load)
        single = scenario.changed({"connections": 1, "interest": "one"})
        with loaded(single, server, conflated, options) as load:
            load.barrier(exact=False)
            load.conflated = True
            intake = run(single, load, ready=True)
        shown = server.settings | options.shown
    cost, alone_cost = own["server_cpu_s_per_million"], plain["server_cpu_s_per_million"]
    return own | {
        "alone_cpu_s_per_million": alone_cost,
        "alone_deliveries_per_s": plain["deliveries_per_s"],
        "alone_lost": plain["lost"],
        "ratio": round(cost / alone_cost, 3) if cost and alone_cost else None,
        "intake_cpu_percent": intake["server_cpu_percent"],
        "ratio_beyond_intake": _ratio(own["server_cpu_percent"] - intake["server_cpu_percent"], own, alone_cost),
        "conflation_ms": INTERVAL_MS,
        "settings": shown,
        "command": options.command,
    }


def _ratio(cpu_percent: float, own: Result, alone_cost: float | None) -> float | None:
    per_second = float(own["deliveries_per_s"])
    return round(cpu_percent / 100 / per_second * 1e6 / alone_cost, 3) if alone_cost and per_second else None
