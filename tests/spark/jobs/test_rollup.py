"""Statistics and audit logs as tables: exact however they are merged, kept when the logs are gone, and fed back."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import fsum, sqrt
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fastpath.client.blocking import connect
from fastpath.client.publisher.publisher import Publisher
from realtime.models import StatisticsBucket, StatisticsState
from realtime.stats import read, transfer
from realtime.stats.store import Store
from realtime.stats.timeline import Timeline
from realtime.stats.windows import DAY, HOUR, MINUTE, WINDOWS, History
from spark import buckets, tables
from spark.jobs import audit_files, rollup
from spark.jobs.running import JobError, parse
from spark.support import histories
from tests.support.sidecar import Sidecar
from tests.support.spark.interpreted import interpreted  # noqa: F401 - of all tests here

pytestmark = pytest.mark.spark
MOMENT = int(datetime(2026, 11, 22, 10, 44, tzinfo=UTC).timestamp())
Sums = tuple[float, float, float, float]


def sums(values: Sequence[float]) -> Sums:
    mean = fmean(values)
    return float(len(values)), mean, fsum((value - mean) ** 2 for value in values), max(values)


def frame(session: SparkSession, rows: Iterable[tuple[str, int, Sums]]) -> Any:
    names, starts, parts = zip(*rows, strict=True)
    columns = dict(zip(buckets.SUMS, map(list, zip(*parts, strict=True)), strict=True))
    return session.createDataFrame(pa.table({"name": list(names), "start": list(starts), **columns}))


def story(seed: int, minutes: int) -> dict[int, list[float]]:
    """Samples by minute over 16 months: some full minutes, some of one sample, with long gaps and a large offset."""
    choose = random.Random(seed)
    starts = {MOMENT - MINUTE * back for back in range(1, 1000)}
    starts |= {MOMENT - MINUTE * choose.randrange(1, 700_000) for _ in range(minutes)}
    return {
        start: [1e6 + choose.gauss(start % 7919, 50) for _ in range(choose.choice((1, 2, 5)))]
        for start in sorted(starts)
    }


def test_the_12_windows_are_what_their_samples_say(session: SparkSession) -> None:
    """To 1e-9, about a mean of a million: by the definition of docs/operate/figures.md, not by another merging."""
    samples = {name: story(seed, 3000) for seed, name in enumerate(("connections", "bytes_in_per_s"))}
    minutes = frame(
        session, [(name, start, sums(values)) for name, of in samples.items() for start, values in of.items()]
    )
    told = buckets.windows(minutes, MOMENT)
    assert list(told["connections"]) == list(WINDOWS)
    for name, of in samples.items():
        for window, asked in WINDOWS.items():
            first = asked.first(MOMENT // asked.size) * asked.size
            assert buckets.firsts(MOMENT)[window] == first
            values = [value for start, several in of.items() if start >= first for value in several]
            found = told[name][window]
            assert found["maximum"] == max(values)
            assert found["average"] == pytest.approx(fmean(values), rel=1e-12)
            assert found["deviation"] == pytest.approx(pstdev(values), rel=1e-9)


def test_windows_without_a_sample_are_null(session: SparkSession) -> None:
    minutes = frame(session, [("connections", MOMENT - 2 * HOUR, sums([3.0, 5.0]))])
    told = buckets.windows(minutes, MOMENT)["connections"]
    assert told["1h"] == {"maximum": None, "average": None, "deviation": None}
    assert told["5h"] == told["15mo"] == {"maximum": 5.0, "average": 4.0, "deviation": 1.0}


def test_a_wrong_folder_is_no_empty_answer(session: SparkSession, tmp_path: Path) -> None:
    for asked in (["--windows"], ["--backfill", str(tmp_path / "b.jsonl.gz")]):
        options = parse("rollup", "", None, rollup.arguments, ["--out", str(tmp_path), *asked])
        with pytest.raises(JobError, match="has no statistics"):
            rollup.work(session, options)
    (tmp_path / "statistics-20261122T100000.jsonl").write_text('{"size":60,"values":{"connections":[1,1,0,1]}}\n')
    assert buckets.read(session, str(tmp_path)).count() == 0


def test_real_closes_by_day_and_month(session: SparkSession) -> None:
    """20 stocks over 33 years: each month's mean, deviation and maximum is that of its days."""
    closes = histories.read()
    starts = [int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) for day in closes.dates]
    days = frame(
        session,
        [
            (symbol, start, (1.0, price, 0.0, price))
            for symbol in ("AAPL", "XOM")
            for start, price in zip(starts, closes.prices[symbol], strict=True)
        ],
    )
    months = {(row.name, row.start): row for row in buckets.merge(days, buckets.month()).collect()}
    assert len(months) == 2 * 396
    for symbol in ("AAPL", "XOM"):
        by_month: dict[tuple[int, int], list[float]] = {}
        for day, price in zip(closes.dates, closes.prices[symbol], strict=True):
            by_month.setdefault((day.year, day.month), []).append(price)
        for (year, month), prices in by_month.items():
            row = months[symbol, int(datetime(year, month, 1, tzinfo=UTC).timestamp())]
            assert (row.n, row.maximum) == (len(prices), max(prices))
            assert row.mean == pytest.approx(fmean(prices), rel=1e-12)
            assert sqrt(row.m2 / row.n) == pytest.approx(pstdev(prices), rel=1e-9, abs=1e-12)


def line(size: int, start: int, **values: Sums) -> str:
    return json.dumps({"size": size, "start": start, "values": values}) + "\n"


def rows(session: SparkSession, table: Path) -> dict[tuple[str, int], Sums]:
    found = tables.read(session, table, buckets.SCHEMA).collect()
    return {(row.name, row.start): (row.n, row.mean, row.m2, row.maximum) for row in found}


@pytest.mark.slow
def test_what_saw_more_counts_and_stays_when_the_logs_are_gone(session: SparkSession, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    hour = MOMENT // HOUR * HOUR
    earlier = hour - 40 * DAY
    full, poor = sums([1.0, 2.0, 3.0]), sums([9.0])
    (logs / "statistics-20261122T100000.jsonl").write_text(
        line(60, hour, connections=full)
        + line(60, hour + 60, connections=poor)
        + line(3600, earlier, connections=(3600.0, 5.0, 0.0, 5.0))
        + line(60, earlier, connections=poor)
        + '{"size":60,"start":17'
    )
    assert rollup.statistics(session, str(logs), out) == ["2026-10", "2026-11"]
    hours = rows(session, out / "hours")
    assert hours["connections", earlier] == (3600.0, 5.0, 0.0, 5.0)
    assert hours["connections", hour] == pytest.approx(sums([1.0, 2.0, 3.0, 9.0]), rel=1e-12)
    (logs / "statistics-20261122T100000.jsonl").unlink()
    # The same minute again, of which less was seen, and a new one.
    (logs / "statistics-20261122T110000.jsonl").write_text(
        line(60, hour, connections=poor) + line(60, hour + 120, connections=poor)
    )
    assert rollup.statistics(session, str(logs), out) == ["2026-11"]
    values = [1.0, 2.0, 3.0, 9.0, 9.0]
    for table in ("hours", "days", "months"):
        found = rows(session, out / table)
        assert len(found) == 2
        assert max(found.items(), key=lambda one: one[0][1])[1] == pytest.approx(sums(values), rel=1e-12)
    before = {path: path.read_bytes() for path in out.rglob("part.parquet")}
    rollup.statistics(session, str(logs), out)
    assert {path: path.read_bytes() for path in out.rglob("part.parquet")} == before
    assert not list(out.rglob(".writing-*"))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_lost_database_is_filled_from_the_tables(session: SparkSession, tmp_path: Path) -> None:
    """Real closes as samples: collected, exported, rolled up, deleted, imported, and the windows are as before."""
    now = int(time.time()) // HOUR * HOUR + HOUR
    history, prices = History(), histories.read().prices
    names = {"connections": "AAPL", "messages_out_per_s": "XOM"}
    for at in range(4000):
        # Three samples an hour for 50 days, and in the last hours one a minute.
        second = now - (4000 - at) * 1200 if at < 3700 else now - (4000 - at) * 60
        history.add(second, {name: prices[symbol][at] for name, symbol in names.items()})
    store = Store()
    assert store.claim() is not None
    store.save(history, Timeline(now - 1))
    store.release()
    path, count = transfer.export(tmp_path / "logs")
    assert path is not None
    assert count > 1000
    assert transfer.export(tmp_path / "logs") == (None, 0)
    before = read.newest(names)
    rollup.statistics(session, str(tmp_path / "logs"), tmp_path / "out")
    StatisticsBucket.objects.all().delete()
    StatisticsState.objects.all().delete()
    backfilled = tmp_path / "backfill.jsonl.gz"
    assert rollup.backfill(session, tmp_path / "out", backfilled, now) > 500
    changed, told = transfer.take([backfilled])
    assert changed == told
    state = StatisticsState.objects.get()
    StatisticsState.objects.update(through=now - 1)
    after = read.newest(names)
    assert state.holder == ""
    for name in names:
        for window in ("1h", "5h", "15h", "1d", "5d", "15d", "1mo", "5mo", "15mo"):
            assert after[name][window] == pytest.approx(before[name][window], abs=2e-6)
    assert transfer.take([backfilled])[0] == 0


@pytest.mark.slow
def test_what_a_sidecar_wrote_down_is_counted(session: SparkSession, tmp_path: Path) -> None:
    """Every event of its audit, once, however often the job runs and though the files go."""
    folder, out = tmp_path / "audit", tmp_path / "out"
    with (
        Sidecar(audit="access,message,statistics", audit_folder=folder) as sidecar,
        Publisher(sidecar.publisher_url) as publisher,
    ):
        prices = histories.read().prices["AAPL"][:50]
        with connect(sidecar.client_url) as client, client.subscribe("/stocks/us/AAPL") as stream:
            for price in prices:
                publisher.publish("/stocks/us/AAPL", f"{price:.2f}")
            publisher.flush()
            while stream.get(20).content != f"{prices[-1]:.2f}":
                pass
    written = [json.loads(one) for path in folder.glob("audit-*") for one in path.read_text().splitlines()]
    expected = Counter((event["kind"], event["event"]) for event in written)
    assert expected["message", "published"] == 50
    rollup.audit(session, [str(folder)], out)
    with next(folder.glob("audit-*")).open("a") as file:
        file.write('{"time":"2026-11')  # as a crash leaves it
    rollup.audit(session, [str(folder)], out)
    for path in folder.glob("audit-*"):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    rollup.audit(session, [str(folder)], out)
    for table in ("events_hours", "events_days", "events_months"):
        found: Counter[tuple[str, str]] = Counter()
        kept = tables.read(session, out / table, rollup.EVENTS).collect()
        for row in kept:
            found[row.kind, row.event] += row.n
        assert found == expected
        size = sum(event.get("bytes", 0) for event in written if event["kind"] == "message")
        assert sum(row.bytes for row in kept if row.kind == "message") == size
    with pytest.raises(ValueError, match="FASTPATH_AUDIT_FOLDER"):
        audit_files.read(session, str(tmp_path))
