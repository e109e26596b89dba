"""The jobs through a real sidecar: prices in, bars, movers and alerts out, each exactly once over a restart."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from argparse import Namespace
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fastpath.client.blocking import connect
from fastpath.client.control.client import Control
from fastpath.client.message import Message
from fastpath.client.publisher.publisher import Publisher
from spark.jobs import live, running
from spark.jobs.desk import job
from spark.jobs.desk.board import Plan
from spark.jobs.scorer import Limits
from spark.support.histories import INSTRUMENTS
from tests.support.prices import NOON
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.writing import forget_last_commit
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.spark
END_SECONDS_MAX = 200
PUBLISHED = ["/*/us/*", "/__sys__/jobs/**"]
STOCKS = ("AAPL", "IBM", "T")
SECONDS = 75


def options(*words: str) -> Namespace:
    return running.parse("live", "", running.streaming_arguments, live.arguments, words)


def prices() -> list[list[Any]]:
    """Two a second of each stock: IBM rises by a tenth of a percent each time, T falls, AAPL jumps at the end."""
    chance = random.Random(3)
    rows = []
    for step in range(SECONDS * 2):
        for symbol, drift in zip(STOCKS, (0, 0.001, -0.001), strict=True):
            price = 100 * (1 + drift) ** step * (1.12 if (symbol, step) == ("AAPL", SECONDS * 2 - 1) else 1)
            fields = {"sent": str(NOON + step * 500), "volume": str(chance.randrange(1, 100) * 100), "change": "0"}
            if symbol == "AAPL":
                fields["change"] = f"{price - 100:.2f}"
            rows.append([f"/stocks/us/{symbol}", f"{price:.2f}", fields])
    return rows


def history(sidecar: Sidecar, subject: str) -> list[dict[str, Any]]:
    """All cached messages of a subject, the oldest first."""
    found: list[dict[str, Any]] = []
    with Control(sidecar.control) as control:
        while page := control.history(subject, before=found[0]["seq"] if found else 0, limit=100)["messages"]:
            found = sorted(page, key=lambda message: int(message["seq"])) + found
            if found[0]["seq"] == 1:
                break
    return found


def end(queries: list[Any]) -> None:
    for query in queries:
        assert query.awaitTermination(END_SECONDS_MAX)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--window-seconds", "60", "--slide-seconds", "7"],
            "--window-seconds is no multiple of --slide-seconds",
        ),
        (["--zscore", "9", "8"], "--zscore: a warning comes before what is critical, 9 is above 8"),
        (["--start-date", "2023-01-01"], "--start-date: the closes end on 2022-12-28"),
    ],
)
def test_arguments_that_make_no_sense(words: list[str], text: str) -> None:
    with pytest.raises(running.JobError) as caught:
        live.start(None, options(*words), "")  # type: ignore[arg-type]
    assert str(caught.value) == text


def test_a_checkpoint_that_is_no_folder() -> None:
    with pytest.raises(running.JobError, match="--checkpoint: s3://bucket/c is no folder of the driver's machine"):
        job.start("desk")(None, options(), "s3://bucket/c")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (job.of_bars, {"intervals": job.INTERVALS}),
        (job.of_movers, {"window": 60_000}),
        (job.of_alerts, {"limits": Limits()}),
    ],
)
def test_each_job_makes_its_kind_alone(kind: running.Arguments, made: dict[str, Any]) -> None:
    given = running.parse("one", "", running.streaming_arguments, job.arguments(kind), [])
    assert replace(job.plan_of(given), slide=0) == Plan(late=2_000, **made)


def test_arguments_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["--intervals", "1s,2h"], "'1s,2h': there are 1s, 1m, 1d"),
        (["--late-seconds", "-1"], "'-1' is not a whole number of seconds"),
        (["--readers-ms", "0"], "0 is not above 0"),
    ):
        with pytest.raises(SystemExit):
            options(*words)
        assert text in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("light")
def test_bars_movers_and_alerts(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = mint_jwt("spark", publish=PUBLISHED, both=["/stocks/**"])
    reader = mint_jwt("reader", subscribe=["/*/us/*"])
    monkeypatch.setenv(running.TOKEN_VARIABLE, token)
    checkpoint = str(tmp_path / "checkpoint")
    rows = prices()
    with Sidecar(mode="jwt", token_secret=SECRET) as sidecar, Publisher(sidecar.publisher_url, token) as publisher:
        once = options("--url", sidecar.publisher_url, "--once", "--intervals", "1s,1m", "--slide-seconds", "30")
        publisher.send_batch(rows)
        publisher.flush()
        end(job.start(live.NAME)(session, once, checkpoint))

        seconds = history(sidecar, "/bars-1s/us/IBM")
        # Closed when two seconds have passed since their ends, by the newest price.
        assert [int(bar["fields"]["start"]) for bar in seconds] == [NOON + 1000 * n for n in range(SECONDS - 3)]
        assert {bar["fields"]["final"] for bar in seconds} == {"1"}
        for number, bar in enumerate(seconds):
            own = [row for row in rows if row[0].endswith("IBM")][2 * number : 2 * number + 2]
            assert [bar["fields"]["open"], bar["fields"]["close"]] == [row[1] for row in own]
            assert bar["fields"]["volume"] == str(sum(int(row[2]["volume"]) for row in own))
        (minute,) = history(sidecar, "/bars-1m/us/T")
        assert (minute["fields"]["open"], minute["fields"]["ticks"], minute["content"]) == (
            "100.00",
            "120",
            rows[359][1],
        )
        with Control(sidecar.control) as control:
            moving = control.snapshot("/bars-1m/us/T", reader)["message"]
            # The snapshot is the bar that still moves.
            assert (moving["fields"]["final"], moving["fields"]["start"]) == ("0", str(NOON + 60_000))
            assert moving["content"] == rows[-1][1]
            changes = {
                symbol: control.snapshot(f"/movers/us/{symbol}", reader)["message"]["content"] for symbol in STOCKS
            }
        assert float(changes["IBM"]) > 0 > float(changes["T"])
        (alert,) = history(sidecar, "/alerts/us/AAPL")[:1]
        assert (alert["fields"]["level"], alert["content"]) == (
            "critical",
            "AAPL at 112.00: +12.00 % since the close before",
        )
        assert {message["as_of"]["job"] for message in (minute, alert)} == {"bars_final", "alerts"}

        # As after a kill between the publication and Spark's own note of it.
        forget_last_commit(Path(checkpoint, live.NAME))
        more = [
            [subject, content, fields | {"sent": str(int(fields["sent"]) + SECONDS * 1000)}]
            for subject, content, fields in rows
        ]
        publisher.send_batch(more)
        publisher.flush()
        end(job.start(live.NAME)(session, once, checkpoint))
        starts = [int(bar["fields"]["start"]) for bar in history(sidecar, "/bars-1s/us/IBM")]
        assert starts == [NOON + 1000 * n for n in range(2 * SECONDS - 3)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_live_as_a_process(tmp_path: Path) -> None:
    """All jobs in one process, on real closes: the final bars are those of the prices that a subscriber saw."""
    token = mint_jwt("spark", publish=PUBLISHED, both=["/*/us/*"])
    seen: dict[str, list[Message]] = defaultdict(list)
    patterns = ["/stocks/us/*", "/bars-1s/us/*", "/movers/us/*", "/alerts/us/*"]
    with (
        Sidecar(mode="jwt", token_secret=SECRET) as sidecar,
        connect(sidecar.client_url, token) as client,
        client.subscribe(patterns) as stream,
        (tmp_path / "output").open("w") as output,
    ):
        command = [sys.executable, "-m", "spark.jobs.live", "--url", sidecar.publisher_url, "--change-pct", "0.5", "1"]
        environment = os.environ | {running.TOKEN_VARIABLE: token}
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, env=environment)
        try:
            finals: list[Message] = []
            while len(finals) < 80 or not {"movers", "alerts"} <= set(seen):
                message = stream.get(END_SECONDS_MAX)
                seen[message.subject.split("/")[1].split("-")[0]].append(message)
                finals = [bar for bar in seen["bars"] if bar.fields["final"] == "1"]
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
    assert {price.subject.rpartition("/")[2] for price in seen["stocks"]} == set(INSTRUMENTS)
    # The bars' query began to read in the middle of an interval: of that first one it has a part.
    first = min(int(bar.fields["start"]) for bar in finals)
    whole = [bar for bar in finals if int(bar.fields["start"]) > first]
    assert len(whole) >= 20
    for bar in whole:
        start, stop = int(bar.fields["start"]), int(bar.fields["end"])
        own = [
            price.content
            for price in seen["stocks"]
            if price.subject.endswith(f"/{bar.fields['symbol']}") and start <= int(price.fields["sent"]) < stop
        ]
        assert (bar.fields["open"], bar.content, int(bar.fields["ticks"])) == (own[0], own[-1], len(own))
        assert bar.fields["simulated"] == "vwap,volume"
    assert (tmp_path / "output").read_text() == f"live: publishing to {sidecar.publisher_url}, a batch every 1000 ms\n"
