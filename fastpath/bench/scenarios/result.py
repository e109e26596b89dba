"""One measurement's result as a line of JSON, with the machine it ran on, and the file that holds several."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..load.drive import Measured
from ..load.swarm import Swarm
from ..load.tracks import Tally
from ..machine.description import machine

Result = dict[str, Any]

KEYS = (
    "scenario", "deliveries_per_s", "server_cpu_s_per_million", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms",
    "lost", "doubled", "reordered", "sampled_connections", "connections", "deliveries", "published", "duration_s",
    "server_pids", "server_memory_bytes", "settings", "command", "form", "machine",
)  # fmt: skip
"""Keys that every result has; ``floor_cpu_s_per_million`` and ``ratio`` come with a floor."""


def result(
    scenario: str, title: str, swarm: Swarm, measured: Measured, pids: Sequence[int], *, connections: int, **more: Any
) -> Result:
    """Return the result of one measurement with one swarm."""
    return summary(
        scenario, title, measured, swarm.tally, pids,
        sampled=swarm.sampled_count, form=swarm.dialect.form, connections=connections, **more,
    )  # fmt: skip


def summary(
    scenario: str, title: str, measured: Measured, tally: Tally, pids: Sequence[int],
    *, connections: int, sampled: int, form: str, **more: Any,
) -> Result:  # fmt: skip
    """Return the common keys; ``server_cpu_s_per_million`` is None when nothing was delivered."""
    cost = measured.cpu_s * 1e6 / measured.deliveries if measured.deliveries else None
    return {
        "scenario": scenario,
        "title": title,
        "deliveries_per_s": round(measured.deliveries / measured.duration_s, 1),
        "server_cpu_s_per_million": None if cost is None else round(cost, 4),
        **tally.latency.summary(),
        "lost": measured.lost,
        "doubled": tally.doubled,
        "reordered": tally.reordered,
        "gaps": tally.gaps,
        "out_of_sequence": tally.out_of_sequence + tally.malformed,
        "sampled_connections": sampled,
        "connections": connections,
        "deliveries": measured.deliveries,
        "published": measured.published,
        "duration_s": round(measured.duration_s, 3),
        "server_cpu_percent": round(100 * measured.cpu_s / measured.duration_s, 1),
        "load_cpu_percent": round(100 * measured.load_cpu_s / measured.duration_s, 1),
        "bytes_per_delivery": round(measured.bytes_in / measured.deliveries, 1)
        if measured.deliveries and measured.bytes_in
        else None,
        "server_pids": list(pids),
        "server_memory_bytes": measured.memory_bytes,
        "form": form,
        "machine": machine(),
        **more,
    }


def beside(own: Result, floor: Result, program: str, coalesced: bool) -> Result:
    """Return our result with the floor's cost and what ours is of it."""
    own_cost, floor_cost = own["server_cpu_s_per_million"], floor["server_cpu_s_per_million"]
    return own | {
        "floor_cpu_s_per_million": floor_cost,
        "ratio": round(own_cost / floor_cost, 3) if own_cost and floor_cost else None,
        "floor_deliveries_per_s": floor["deliveries_per_s"],
        "floor_p99_ms": floor["p99_ms"],
        "floor_lost": floor["lost"],
        "floor": f"{Path(program).name}, {'coalescing per tick' if coalesced else 'one send per message'}",
    }


def lines(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the results as text, one line of JSON each."""
    return "".join(json.dumps(one) + "\n" for one in results)


def write(path: Path, results: Iterable[Mapping[str, Any]]) -> None:
    """Write the results' lines, replacing the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(lines(results), encoding="utf-8")
    part.replace(path)
