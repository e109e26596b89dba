"""Tells from recorded load how many machines a larger one needs: `python -m spark.jobs.capacity --help`.

What a message and a connection cost is found in the minutes that the statistics have kept
(docs/operate/figures.md), and in results of `python -m fastpath.bench run --output FILE`, by least squares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark import buckets, tables
from spark.jobs.running import JobError, positive, run_batch
from spark.support.costs import CPU, MEMORY, Costs, Machine, Need, TooLittle, fit, plan

NAMES = ("cpu_percent", "memory_bytes", *dict.fromkeys((*CPU, *MEMORY)), "bytes_out_per_s")
SAMPLES_MIN = 30
"""Seconds in a minute that were sampled: of a minute with fewer little is known."""

PEAK = 0.999
"""The load that is planned for was not exceeded in so many of the minutes."""

DIVIDED = frozenset(("cpu_percent", "memory_bytes", "messages_out_per_s", "connections", "bytes_out_per_s"))
"""Names that the statistics add up over nodes; of all else each node has all (docs/operate/figures.md, Names)."""


def transform(minutes: DataFrame, nodes: int = 1) -> DataFrame:
    """Make of minutes (support/buckets.py) what one of `nodes` nodes did in each: `start`, and a column a name of
    NAMES, the mean; only minutes in which all were sampled."""
    wide = minutes.where(F.col("n") >= SAMPLES_MIN).groupBy("start").pivot("name", list(NAMES)).agg(F.first("mean"))
    shared = {name: nodes if name in DIVIDED else 1 for name in NAMES}
    return wide.dropna().select("start", *((F.col(name) / shared[name]).alias(name) for name in NAMES))


def moments(load: DataFrame) -> dict[tuple[str, str], float]:
    """Return the means of all products of two columns of NAMES, where `1` is a constant: all that the costs depend on.

    Raises TooLittle where there is no row.
    """
    pairs = list(combinations_with_replacement(("1", *NAMES), 2))
    columns = {"1": F.lit(1.0)} | {name: F.col(name) for name in NAMES}
    row = load.agg(*(F.avg(columns[a] * columns[b]) for a, b in pairs)).head()
    if row is None or row[0] is None:
        raise TooLittle("there are no minutes with all that is needed")
    found = {pair: float(value) for pair, value in zip(pairs, row, strict=True)}
    return found | {(b, a): value for (a, b), value in found.items()}


def peak(load: DataFrame, nodes: int = 1) -> dict[str, float]:
    """Return the load of all nodes together that is exceeded in one minute of a thousand."""
    row = load.agg(*(F.percentile(name, F.lit(PEAK)) for name in NAMES)).head()
    assert row is not None
    return {name: float(row[at]) * (nodes if name in DIVIDED else 1) for at, name in enumerate(NAMES)}


def bench_rows(runs: Iterable[Mapping[str, Any]]) -> list[tuple[float, ...]]:
    """Return results of the benchmark as minutes of one node, in the order of `start` and NAMES."""
    rows = []
    for place, run in enumerate(runs):
        if not run.get("server_cpu_percent") or not run.get("duration_s"):
            continue
        told = {
            "cpu_percent": run["server_cpu_percent"],
            "memory_bytes": run["server_memory_bytes"],
            "connections": run["connections"],
            "messages_out_per_s": run["deliveries_per_s"],
            "messages_in_per_s": run["published"] / run["duration_s"],
            "bytes_out_per_s": (run.get("bytes_per_delivery") or 0) * run["deliveries_per_s"],
        }
        rows.append((float(place), *(float(told.get(name) or 0) for name in NAMES)))
    return rows


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the job: the recorded load, the load to come, and the machines to buy."""
    parser.add_argument("--tables", type=Path, metavar="DIR", help="--out of the job rollup")
    parser.add_argument("--bench", type=Path, nargs="+", default=[], metavar="FILE", help="results of fastpath.bench")
    parser.add_argument("--nodes", type=positive(int), default=1, help="nodes that there were while it was recorded")
    parser.add_argument("--growth", type=positive(float), default=2.0, help="times the greatest recorded load")
    parser.add_argument(
        "--users", type=positive(float), help="plan for so many connections, each with as many messages"
    )
    parser.add_argument("--cores", type=positive(float), default=1.0, help="cores that a node of a machine may use")
    parser.add_argument("--memory-gib", type=positive(float), default=4.0, help="memory of a machine")
    parser.add_argument("--network-mbit", type=positive(float), default=1000.0, help="network of a machine")
    parser.add_argument("--headroom", type=float, default=0.3, help="part of each that stays free")
    parser.add_argument("--json", action="store_true", help="the outcome as one object of JSON")


def work(session: SparkSession, options: argparse.Namespace) -> None:
    """Print the costs and the machines; raises JobError."""
    if not options.tables and not options.bench:
        raise JobError("give what was recorded: --tables, --bench or both")
    if not 0 <= options.headroom < 1:
        raise JobError("--headroom is a part: from 0 to below 1")
    try:
        load = _recorded(session, options).persist()
        means = moments(load)
        cpu, memory = fit(means, CPU, "cpu_percent"), fit(means, MEMORY, "memory_bytes")
        most = peak(load, options.nodes)
        factor = options.users / most["connections"] if options.users and most["connections"] else options.growth
        # With more users there are more readers, not more to read.
        wanted = {name: value * (factor if name in DIVIDED or not options.users else 1) for name, value in most.items()}
        machine = Machine(options.cores, options.memory_gib * 2**30, options.network_mbit * 125_000, options.headroom)
        _show(cpu, memory, wanted, plan(cpu, memory, wanted, machine), options.json)
    except TooLittle as error:
        raise JobError(str(error)) from None


def _recorded(session: SparkSession, options: argparse.Namespace) -> DataFrame:
    if options.tables and not (options.tables / "minutes").is_dir():
        raise JobError(f"{options.tables} has no table minutes: is it the --out of rollup --statistics?")
    minutes = tables.read(session, options.tables / "minutes", buckets.SCHEMA) if options.tables else None
    load = transform(minutes, options.nodes) if minutes is not None else None
    rows: list[tuple[float, ...]] = []
    for path in options.bench:
        try:
            rows += bench_rows(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise JobError(f"{path} is no result of fastpath.bench: {error!r}") from None
    schema = ", ".join(f"{name} double" for name in ("start", *NAMES))
    bench = session.createDataFrame(rows, schema)
    return bench if load is None else load.unionByName(bench)


def _show(cpu: Costs, memory: Costs, load: Mapping[str, float], need: Need, as_json: bool) -> None:
    if as_json:
        told = {
            "cpu": _told(cpu),
            "memory": _told(memory),
            "load": load,
            "machines": need.machines,
            "parts": need.parts,
        }
        print(json.dumps(told))
        return
    for name, costs, unit in (("cpu", cpu, "% of a core"), ("memory", memory, "bytes")):
        each = ", ".join(f"{cost:.3g} for each of {kind}" for kind, cost in costs.each.items() if cost)
        print(f"capacity: {name}, {unit}: {costs.fixed:.3g} of each node, {each}; {costs.unexplained:.0%} unexplained")
    print("capacity: planned for " + ", ".join(f"{load[name]:,.0f} {name}" for name in (*CPU, "bytes_out_per_s")))
    parts = ", ".join(f"{name} {part:.0%}" for name, part in need.parts.items())
    print(
        f"capacity: {need.machines} machines, of what may be used: {parts}; another one where one may fail", flush=True
    )


def _told(costs: Costs) -> dict[str, Any]:
    return {"fixed": costs.fixed, "each": costs.each, "unexplained": costs.unexplained}


def main(words: Sequence[str] | None = None) -> int:
    """Run once; 0, or 1 with a line that says why not."""
    return run_batch("capacity", str(__doc__).partition(":")[0] + ".", arguments, work, words)


if __name__ == "__main__":
    sys.exit(main())
