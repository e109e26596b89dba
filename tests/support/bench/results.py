"""Results of two scenarios, three runs each, and of one comparison, as `--output` writes them, a line each."""

from __future__ import annotations

from typing import Any

MACHINE: dict[str, Any] = {"cpu": "A processor", "kernel": "6.1", "date": "2025-11-21", "revision": "0ld"}
MEASURED: dict[str, Any] = {"lost": 0, "doubled": 0, "reordered": 0, "connections": 1000, "form": "json"}


def run(scenario: str, cost: float, floor: float | None = None, **more: Any) -> dict[str, Any]:
    """One run with round latencies."""
    latency = {"p50_ms": 2.5, "p90_ms": 3.25, "p99_ms": 4.75, "p999_ms": 9.5, "max_ms": 31.0}
    beside = {} if floor is None else {"floor_cpu_s_per_million": floor, "ratio": cost / floor}
    return (
        {"scenario": scenario, "server_cpu_s_per_million": cost, "deliveries_per_s": 345_600.0, "deliveries": 1}
        | MEASURED
        | latency
        | beside
        | {"command": "python -m fastpath.bench run all", "duration_s": 5.0, "settings": {"FASTPATH_MODE": "rules"}}
        | {"machine": MACHINE}
        | more
    )


RESULTS = [
    *(run("F1", cost, 2.0) for cost in (2.36, 2.2, 2.5)),
    *(run("F4", cost, 10.0, connections=10_000, p99_ms=17.5) for cost in (11.1, 11.3, 11.2)),
    run("F10", 9.0, connections=200_000, lost=3),
    run("F1", 2.3, 2.0, peer="fastpath"),
    run("F1", 3.45, peer="nchan", memory_per_connection_bytes=10_240),
    run("F1", 321.0, peer="channels"),
]
