"""Which master, which settings and which environment a session gets; Spark Connect is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import MASTER_VARIABLE, ConnectRefused, build
from tests.support.sidecar import ROOT


@pytest.mark.parametrize(
    ("conf", "environment"),
    [
        ({"spark.remote": "sc://127.0.0.1:15002"}, {}),
        ({"spark.master": "sc://127.0.0.1:15002"}, {}),
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_REMOTE": "local[2]"}),
        ({}, {"SPARK_CONNECT_MODE_ENABLED": "1"}),
        ({}, {MASTER_VARIABLE: "sc://127.0.0.1:15002"}),
    ],
)
def test_spark_connect_is_refused_with_what_to_do(
    conf: dict[str, str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConnectRefused, match=r"not over Spark Connect.*spark://host:7077"):
        build(**conf)


def test_a_job_says_so_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark.jobs.ticks"],
        cwd=ROOT,
        env=os.environ | {"SPARK_REMOTE": "sc://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("ticks: these jobs run in a driver of their own, not over Spark Connect")
    assert "Traceback" not in done.stderr


def test_the_archive_is_complete(tmp_path: Path) -> None:
    """What is imported from it alone is what is imported here."""
    archive = tmp_path / "made.zip"
    made, wrong = (
        subprocess.run(
            [sys.executable, "-m", "spark.shipping", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        for words in ([str(archive)], [])
    )
    assert made.stdout.strip() == str(archive)
    assert (wrong.returncode, wrong.stderr) == (2, "usage: python -m spark.shipping FILE.zip\n")
    program = (
        "import fastpath.client.publisher.transactions as a, spark.sink.sink as b, spark.source.source as c; "
        "print(a.__file__, b.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count(str(archive)) == 2, done.stderr


def test_the_archive_for_executors_is_made_once_and_goes_with_the_process() -> None:
    program = "from spark.shipping import _archive as a; assert a() is a() and a().is_file(); print(a())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    archive = Path(done.stdout.strip())
    assert archive.suffix == ".zip"
    assert not archive.parent.exists()


@pytest.mark.spark
def test_a_connection_that_a_stop_has_ended_is_no_error(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, told in ((EOFError(), False), (ConnectionResetError(), False), (ValueError("another"), True)):
        try:
            raise error
        except type(error):
            session.sparkContext._accumulatorServer.handle_error(None, None)
        assert ("another" in capsys.readouterr().err) is told


@pytest.mark.spark
def test_a_long_error_of_a_function_does_not_overflow_the_stack(session: SparkSession) -> None:
    """Spark looks in it for an interruption, when a query with foreachBatch is stopped."""
    runtime = session._jvm.org.apache.spark.sql.execution.streaming.runtime
    pattern = getattr(runtime, "StreamExecution$").__getattr__("MODULE$").PROXY_ERROR()
    error = f"py4j.protocol.Py4JJavaError: An error occurred while calling {'x' * 60_000}"
    assert pattern.findFirstMatchIn(error).isEmpty()
