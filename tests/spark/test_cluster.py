"""A job as it is on Spark's standalone master with two workers, whose executors publish to two nodes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from fastpath.client.control.client import Control
from fastpath.client.publisher.publisher import Publisher
from spark.cluster import Cluster
from spark.java import find_java_home
from spark.jobs.process import without_noise
from spark.session import MASTER_VARIABLE
from spark.shipping import pack
from tests.support.edge.wire import WireClient
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.spark import sql_bars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(500)]

SYMBOLS = ("AAPL", "AMD", "BAC", "BBY", "CVX", "GE", "HD", "JNJ", "JPM", "KO")
SECONDS = 600
T = 1767607200000
"""2026-01-05 10:00 in ms since 1970."""


def price(symbol: int, second: int) -> str:
    return f"{100 + symbol}.{second % 100:02}"


def figure(sidecar: Sidecar, name: str) -> float:
    with Control(sidecar.control) as control:
        return float(control.stats()[name])


def submit(folder: Path, master: str, urls: str, *words: str) -> str:
    """Run the manual's bars in SQL to their end with Spark's own program and the archive alone; what it said.

    Neither the driver's JVM nor the executors know this repository, and the job's own settings do not count.
    """
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master]
    command += ["--conf", "spark.sql.shuffle.partitions=2", "--py-files", str(pack(folder / "packed.zip"))]
    job = folder / f"{sql_bars.NAME}.py"
    job.write_text(sql_bars.text(), encoding="utf-8")
    command += [str(job), "--url", urls, *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, MASTER_VARIABLE: "local[1]"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def history(sidecar: Sidecar, subject: str) -> list[dict[str, str]]:
    """The fields of all cached messages of a subject, in order."""
    with WireClient(sidecar) as client:
        [result] = client.ask("subscribe", "subscribed", subjects=[subject], history=10_000)["results"]
        found = [client.message() for _ in range(result["seq"])]
    assert [message[1] for message in found] == list(range(1, len(found) + 1))
    return [message[4] for message in found]


def test_a_job_runs_unchanged_on_two_workers_and_two_nodes(tmp_path: Path) -> None:
    """Each bar is there once, on both nodes, both of which took rows from the executors."""
    point = tmp_path / "point"
    with (
        RedisServer() as redis,
        Sidecar(engine=redis.url) as one,
        Sidecar(engine=redis.url) as other,
        Cluster() as all_,
    ):
        with Publisher(one.publisher_url) as feed:
            for second in range(SECONDS):
                sent = {"sent": str(T + 1000 * second), "volume": "100"}
                feed.send_batch([[f"/stocks/us/{name}", price(n, second), sent] for n, name in enumerate(SYMBOLS)])
        before = [figure(sidecar, "bytes_in") for sidecar in (one, other)]
        urls = f"{one.publisher_url},{other.publisher_url}"
        output = submit(tmp_path, all_.url, urls, "--once", "--seconds", "1", "--checkpoint", str(point))
        for sidecar, bytes_in in zip((one, other), before, strict=True):
            assert figure(sidecar, "bytes_in") - bytes_in > 100_000, "far more than reports are"
            with Control(sidecar.control) as control:
                assert {found["job"] for found in control.jobs()["jobs"]} == {sql_bars.NAME}
        assert [len(list(folder.glob("app-*"))) for folder in all_.folders] == [1, 1], "each worker had an executor"
        for n, name in enumerate(SYMBOLS):
            final = history(other, f"/sql-bars/us/{name}")
            assert len(final) > SECONDS - 10, "those at the end wait for the watermark"
            for second, bar in enumerate(final):
                assert (bar["start"], bar["open"]) == (str(T + 1000 * second), price(n, second))
    assert '"spark.sql.shuffle.partitions":"2"' in (point / sql_bars.NAME / "offsets" / "0").read_text()
    assert b"Traceback" not in b"".join(without_noise(output.encode().splitlines(keepends=True))), output
