"""A session that was built elsewhere, in a process outside this repository that was told nothing of it but its path."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from spark.shipping import pack
from tests.support.sidecar import ROOT, Sidecar

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

OWN = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark.sql import SparkSession
from spark.session import WorkersLack, register
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
try:
    register(session)
except WorkersLack as error:
    sys.exit(f"told: {error}")
rows = session.range(100).selectExpr("'/own/x' as subject", "cast(id as string) as content")
rows.write.format("realtime").mode("append").option("url", sys.argv[2]).save()
cached = session.read.format("fastpath").option("url", sys.argv[2]).option("subjects", "/own/*")
print("read", cached.option("start", "earliest").load().count())
"""

SUBMITTED = """
from spark.session import build
session = build("submitted")
logs = session._jvm.org.apache.logging.log4j.LogManager.getLogger("some.class")
logs.info("an info of Spark's")
logs.warn("a warning of Spark's")
logs.error("an error of Spark's")
print("rows", session.range(5).count())
"""


def bare(**more: str) -> dict[str, str]:
    """An environment that says nothing of Python: the first `python3` on its PATH has none of the packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL"))}
    return kept | {"SPARK_LOCAL_IP": "127.0.0.1"} | more


def python_without_packages(folder: Path) -> str:
    """This Python, but without its site-packages."""
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def run(folder: Path, url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    script = folder / "own.py"
    script.write_text(OWN)
    return subprocess.run(
        [sys.executable, str(script), str(ROOT), url], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_an_own_session_writes_and_reads(tmp_path: Path) -> None:
    """Its Python workers have neither the packages on their path, nor does the `python3` that Spark would take."""
    python_without_packages(tmp_path)
    with Sidecar() as sidecar:
        ended = run(tmp_path, sidecar.publisher_url, bare(PATH=f"{tmp_path}:{os.environ['PATH']}"))
    assert (ended.returncode, ended.stdout) == (0, "read 100\n"), ended.stderr
    assert "Traceback" not in ended.stderr


def test_workers_that_lack_something_are_said_in_one_line(tmp_path: Path) -> None:
    python = python_without_packages(tmp_path)
    ended = run(tmp_path, "127.0.0.1:1", bare(PYSPARK_PYTHON=python))
    assert ended.returncode == 1
    told = f"told: Spark's Python workers run {python}, which has no pyspark and no pyarrow and no msgspec. "
    assert f"{told}Set PYSPARK_PYTHON to a Python that has all, such as {sys.executable}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_submitted_job_logs_errors_only(tmp_path: Path) -> None:
    """The JVM runs before the job does, with Spark's own log; the packages come from the archive alone."""
    archive = pack(tmp_path / "realtime.zip")
    assert "spark/log4j2.properties" in zipfile.ZipFile(archive).namelist()
    (tmp_path / "job.py").write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    ended = subprocess.run(
        [str(submit), "--py-files", str(archive), "job.py"],
        cwd=tmp_path,
        env=bare(PYSPARK_PYTHON=sys.executable),
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (0, "rows 5\n"), ended.stderr
    assert "an error of Spark's" in ended.stderr
    assert "a warning of Spark's" not in ended.stderr
