"""Every figure that there is, as Prometheus' own tool checks it: names, units, help."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastpath.core.telemetry.figures import FIGURES
from fastpath.core.telemetry.histogram import Histogram
from fastpath.edge.telemetry.figures import Statistics
from fastpath.edge.telemetry.prometheus import lines


def everything(workers: int) -> str:
    """The text with all figures of the table; each of a worker is its number and one."""
    each: list[dict[str, float]] = [
        {"worker": worker, "pid": 1} | dict.fromkeys(FIGURES, worker + 1) for worker in range(workers)
    ]
    histogram = Histogram()
    histogram.add(3_000_000, 7)
    statistics: Any = SimpleNamespace(
        by_worker=lambda: each,
        figures=lambda given: dict.fromkeys(FIGURES, 1500),
        latencies=SimpleNamespace(total=lambda: histogram),
    )
    return "\n".join([*lines(cast(Statistics, statistics), ready=True), ""])


def test_units_labels_and_workers() -> None:
    text = everything(2).splitlines()
    for line in (
        "fastpath_connections 1500",
        "fastpath_messages_out_total 1500",
        "fastpath_loop_lag_seconds 1.5",
        "fastpath_machine_cpu_ratio 15.0",
        'fastpath_disconnects_total{reason="slow_consumer"} 1500',
        'fastpath_publications_failed_total{code="unavailable"} 1500',
        'fastpath_evicted_total{by="memory"} 1500',
        'fastpath_limited_total{limit="outbox"} 1500',
        'fastpath_worker_connections{worker="1"} 2',
        'fastpath_worker_disconnects_total{worker="0",reason="lost"} 1',
        'fastpath_latency_seconds_bucket{le="0.002"} 0',
        'fastpath_latency_seconds_bucket{le="0.003"} 7',
        'fastpath_latency_seconds_bucket{le="+Inf"} 7',
        "fastpath_latency_seconds_sum 0.021",
        "fastpath_latency_seconds_count 7",
        "fastpath_ready 1",
    ):
        assert line in text
    assert not any("_per_s" in line or "percent" in line for line in text if not line.startswith("# HELP"))
    assert not any(line.startswith("fastpath_worker_") for line in everything(1).splitlines())


@pytest.mark.slow
@pytest.mark.prometheus
def test_the_text_passes_promtool() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=everything(3), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
