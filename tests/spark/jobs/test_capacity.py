"""What things cost, found in what was recorded; and how many machines that makes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from fastpath.bench.__main__ import main as bench
from spark import buckets, tables
from spark.jobs import capacity
from spark.jobs.running import JobError, parse
from spark.support.costs import CPU, MEMORY, Costs, Machine, TooLittle, fit, plan
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here

pytestmark = pytest.mark.spark
Load = dict[str, float]


def means(rows: list[Load]) -> dict[tuple[str, str], float]:
    """As the job finds them, without Spark."""
    names = ("1", *rows[0])
    full = [row | {"1": 1.0} for row in rows]
    return {(a, b): sum(row[a] * row[b] for row in full) / len(full) for a in names for b in names}


cost = st.one_of(st.just(0.0), st.floats(1e-5, 1e-2))


@given(st.floats(0.1, 50), st.tuples(cost, cost, cost), st.integers(0, 10_000))
def test_what_was_recorded_is_explained(fixed: float, costs: tuple[float, ...], seed: int) -> None:
    """Where load and cost are exactly proportional the costs are found again, of each kind by itself."""
    choose = random.Random(seed)
    rows = []
    for _ in range(40):
        row = {name: choose.uniform(0, 20_000) for name in CPU}
        rows.append(row | {"cpu_percent": fixed + sum(c * row[name] for c, name in zip(costs, CPU, strict=True))})
    found = fit(means(rows), CPU, "cpu_percent")
    assert found.fixed == pytest.approx(fixed, rel=1e-3, abs=1e-3)
    assert list(found.each.values()) == pytest.approx(list(costs), rel=1e-3, abs=1e-8)
    assert found.unexplained < 1e-4


def test_nothing_costs_less_than_nothing() -> None:
    """Less memory with more connections is chance: what remains is what does cost."""
    rows = [
        {
            "connections": float(at),
            "cached_bytes": 0.0,
            "subjects": float(at % 3),
            "memory_bytes": 5e7 - at + 1e3 * (at % 3),
        }
        for at in range(30)
    ]
    found = fit(means(rows), MEMORY, "memory_bytes")
    assert found.each["connections"] == found.each["cached_bytes"] == 0
    assert found.each["subjects"] == pytest.approx(1e3, rel=0.01)


def test_load_that_never_changed_tells_nothing() -> None:
    rows = [dict.fromkeys((*CPU, "cpu_percent"), 5.0)] * 10
    with pytest.raises(TooLittle, match="never changed"):
        fit(means(rows), CPU, "cpu_percent")
    # Two kinds that always came together are told apart by nothing: one of them has the cost of both.
    names = ("messages_out_per_s", "messages_in_per_s", "cpu_percent")
    together = [dict.fromkeys(names, at) | {"connections": 5.0} for at in map(float, range(9))]
    assert sum(fit(means(together), CPU, "cpu_percent").each.values()) == pytest.approx(1)


def test_machines() -> None:
    """By what runs out first; what every node takes in is not shared."""
    cpu = Costs(2.0, {"messages_out_per_s": 0.001, "messages_in_per_s": 0.01, "connections": 0.0}, 0.0)
    memory = Costs(50e6, {"connections": 10e3, "cached_bytes": 1.0, "subjects": 0.0}, 0.0)
    load = {
        "messages_out_per_s": 100_000.0,
        "messages_in_per_s": 1000.0,
        "connections": 10_000.0,
        "bytes_out_per_s": 1e6,
    }
    machine = Machine(1.0, 4 * 2**30, 125e6, headroom=0.3)
    need = plan(cpu, memory, load, machine)
    # 70 % of a core: 2 + 10 of each, and 100 of all: two are left 6 % of a core too little.
    assert (need.machines, need.by) == (2, "cpu")
    assert need.parts["cpu"] == pytest.approx((2 + 10 + 50) / 70)
    many = plan(cpu, memory, load | {"connections": 1e6}, machine)
    assert (many.machines, many.by) == (4, "memory")
    wide = plan(cpu, memory, load | {"bytes_out_per_s": 1e9}, machine)
    assert (wide.machines, wide.by) == (12, "network")
    assert plan(cpu, memory, dict.fromkeys(load, 0.0), machine).machines == 1
    with pytest.raises(TooLittle, match=r"cpu of one alone is 1\.5"):
        plan(cpu, memory, load | {"messages_in_per_s": 10_000.0}, machine)


def minutes(session: SparkSession) -> DataFrame:
    """A day of two nodes together: a message out costs 0.002 % of a core, a connection 20 kB."""
    rows = []
    for at in range(1440):
        out, users = 1000.0 + 20 * at, 100.0 + at % 600
        told = {
            "cpu_percent": 2 * 3 + 0.002 * out,
            "memory_bytes": 2 * 60e6 + 20e3 * users + 2 * 1e6,
            "messages_out_per_s": out,
            "messages_in_per_s": 50.0,
            "connections": users,
            "cached_bytes": 1e6,
            "subjects": 20.0,
            "bytes_out_per_s": 100 * out,
        }
        rows += [(name, 60 * at, 60.0, value, 0.0, value) for name, value in told.items()]
    rows.append(("cpu_percent", 60 * 1440, 5.0, 99.0, 0.0, 99.0))
    columns = ("name", "start", *buckets.SUMS)
    return session.createDataFrame(pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))))


def options(*words: str) -> Any:
    return parse("capacity", "", None, capacity.arguments, words)


def test_from_tables_to_machines(session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables.write(tmp_path / "minutes", minutes(session), ("name", "start"))
    capacity.work(session, options("--tables", str(tmp_path), "--nodes", "2", "--growth", "10", "--json"))
    told = json.loads(capsys.readouterr().out)
    assert told["cpu"]["fixed"] == pytest.approx(3, rel=1e-6)
    assert told["cpu"]["each"]["messages_out_per_s"] == pytest.approx(0.002, rel=1e-6)
    assert told["memory"]["each"]["connections"] == pytest.approx(20e3, rel=1e-6)
    assert told["load"]["messages_out_per_s"] == pytest.approx(10 * 29_780, rel=0.01)
    # 596 % of a core, of which one has 70 - 3.
    assert told["machines"] == 9
    with pytest.raises(JobError, match="--tables, --bench or both"):
        capacity.work(session, options())
    with pytest.raises(JobError, match="no table minutes"):
        capacity.work(session, options("--tables", str(tmp_path / "none")))


@pytest.mark.slow
def test_from_what_a_real_server_took(
    session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark's own results of a sidecar: with few clients and with more."""
    files = []
    for clients in ("20", "200"):
        files.append(str(tmp_path / f"{clients}.json"))
        words = ["run", "F1", "--connections", clients, "--duration", "0.5", "--output", files[-1]]
        assert bench(words) in (0, 1)
    capsys.readouterr()
    capacity.work(session, options("--bench", *files, "--users", "1000"))
    printed = capsys.readouterr().out
    assert "capacity: planned for" in printed
    assert "1,000 connections" in printed
    assert "machines, of what may be used: cpu" in printed
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(JobError, match=r"x\.json is no result of fastpath\.bench"):
        capacity.work(session, options("--bench", str(tmp_path / "x.json")))
