"""`manage.py spark_job`: the list of jobs, and what a job is given of this project."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from entitlement import conf as entitlement_conf
from realtime.conf import conf
from realtime.management.commands import spark_job
from tests.support.processes import running
from tests.support.sidecar import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment of the tests has."""
    for name in (spark_job.URL, spark_job.TOKEN, "REALTIME_SPARK_MASTER", "FASTPATH_AUDIT_FOLDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def spark(db: None) -> User:
    """The user of the demonstration's jobs."""
    return User.objects.create_user("spark")


def test_the_jobs_are_listed_with_what_they_do() -> None:
    """From their own words; a module that is not to be run is none."""
    output = io.StringIO()
    call_command("spark_job", stdout=output)
    lines = output.getvalue().splitlines()
    assert any(line.startswith("ticks ") and "replay" in line.lower() for line in lines), lines
    assert not any(line.startswith(("process", "running", "__init__")) for line in lines)
    assert lines == sorted(lines)


def test_an_unknown_job_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match=r"there is no job 'tocks'; there are .*ticks"):
        call_command("spark_job", "tocks")


def test_what_follows_the_name_is_the_jobs_own() -> None:
    """Also --help, which needs neither a token nor a sidecar."""
    told = run("ticks", "--help")
    assert told.returncode == 0
    assert "usage: python -m spark.jobs.ticks" in told.stdout


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "spark_job", *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )


def test_it_is_given_the_address_a_token_and_the_folders(spark: User, settings: Any) -> None:
    settings.REALTIME = settings.REALTIME | {"AUDIT_FOLDER": "/somewhere/audit"}
    given = spark_job.environment(None, None, None)
    assert given[spark_job.URL] == conf.publishers
    assert given["REALTIME_AUDIT_FOLDER"] == "/somewhere/audit"
    assert given["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT)
    assert "REALTIME_SPARK_MASTER" not in given
    secret = entitlement_conf.sidecar_secret()
    claims = jwt.decode(given[spark_job.TOKEN], secret, algorithms=["HS256"], audience="fastpath")
    assert claims["sub"] == "spark"
    assert claims["exp"] - claims["iat"] > 24 * 3600, "a job runs for long"


def test_options_and_settings_win_in_their_order(spark: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line, the environment, the settings, this machine; a token that is there stays, unless a user is
    named."""
    settings.REALTIME = settings.REALTIME | {"PUBLISHERS": "a:1,b:1"}
    assert spark_job.environment(None, None, None)[spark_job.URL] == "a:1,b:1"
    monkeypatch.setenv(spark_job.URL, "c:1")
    monkeypatch.setenv(spark_job.TOKEN, "mine")
    given = spark_job.environment(None, None, "spark://m:7077")
    assert (given[spark_job.URL], given[spark_job.TOKEN]) == ("c:1", "mine")
    assert given["REALTIME_SPARK_MASTER"] == "spark://m:7077"
    given = spark_job.environment("spark", "d:1", None)
    assert given[spark_job.URL] == "d:1"
    assert given[spark_job.TOKEN] != "mine"


def test_sparks_own_options_are_its_settings(spark: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """As spark-submit has them; those that the environment has already stay, unless they are named."""
    monkeypatch.setenv(spark_job.CONF, '{"spark.jars": "a.jar", "spark.executor.cores": "2"}')
    given = spark_job.environment(None, None, None, {"spark.jars": "b.jar", "spark.jars.packages": "a:b:1"})
    assert json.loads(given[spark_job.CONF]) == {
        "spark.jars": "b.jar", "spark.jars.packages": "a:b:1", "spark.executor.cores": "2"
    }  # fmt: skip
    told = spark_job.Command().create_parser("manage.py", "spark_job").format_help()
    assert all(f"--{option}" in told for option in ("jars", "packages", "repositories", "files", "conf"))
    with pytest.raises(CommandError, match=r"'driver\.memory=1g' is no setting of Spark's: spark\.NAME=VALUE"):
        call_command("spark_job", "--conf", "driver.memory=1g", "ticks")


def test_what_is_missing_is_said_before_anything_starts(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=r"There is no user 'spark'.*--user"):
        spark_job.environment(None, None, None)
    monkeypatch.setenv("FASTPATH_LISTEN", "clients://127.0.0.1:8800")
    settings.REALTIME = settings.REALTIME | {"PUBLISHERS": ""}
    with pytest.raises(CommandError, match="no plain publisher port"):
        spark_job.environment(None, None, None)


SLEEPER = """
import signal, sys, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
print("up", flush=True)
while not stop.wait(1):
    pass
print("ended in order", flush=True)
sys.exit(3)
"""
PARENT = """
import os, sys
import django
django.setup()
from realtime.management.commands import spark_job
sys.exit(spark_job._run([sys.executable, "-c", sys.argv[1]], os.environ))
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Any]:
    """The command around a job that ends in order, and what both print."""
    path = tmp_path / "output"
    with path.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, SLEEPER],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "realtime.settings"},
        )
    until(lambda: path.read_text() == "up\n", 30)
    yield process, path
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "name", ["SIGTERM", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGINT", "SIGHUP"))]
)
def test_a_signal_reaches_the_job_and_its_status_comes_back(command: Any, name: str) -> None:
    process, path = command
    process.send_signal(signal.Signals[name])
    assert process.wait(3 * PATIENCE_SECONDS) == 3
    assert path.read_text() == "up\nended in order\n"


def test_the_job_does_not_outlive_the_command(command: Any) -> None:
    process, _ = command
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.wait()
    until(lambda: not running({int(child)}))


KEEPER = """
import os, sys
import django
django.setup()
from realtime.management.commands import spark_job
from realtime.process.supervisor import Child
job = Child("job", [sys.executable, "-c", "print('here')"], lambda: os.environ, restart_seconds=0.1)
spark_job.Command()._keep(job)
"""


def test_a_job_that_is_kept_is_started_again_until_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "output"
    with path.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", KEEPER],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "realtime.settings"},
        )
    try:
        until(lambda: path.read_text().count("job     | here") >= 2, 30)
        process.terminate()
        assert process.wait(3 * PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
