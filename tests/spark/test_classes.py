"""The archive of Spark's classes: used where it is this user's alone, and a start with it publishes as one without."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spark.java import find_java_home
from spark.support import classes
from tests.support.processes import command_line
from tests.support.sidecar import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """The home of what might be a Java."""
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    return tmp_path / "java"


def test_each_java_has_an_archive_of_its_own(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = classes.path(java)
    assert (one.parent, one) == (tmp_path / "fastpath", classes.path(java))
    (java / "bin" / "java").rename(java / "bin" / "old")
    (java / "bin" / "java").write_text("#!/bin/sh")
    assert classes.path(java) != one


def test_only_what_nobody_else_can_write_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert classes.options() == ""
    archive = classes.path()
    archive.parent.mkdir()
    archive.touch(0o600)
    assert classes.options().startswith(f"-XX:SharedArchiveFile={archive} ")
    assert not classes.make()  # it is there
    archive.chmod(0o622)
    assert classes.options() == ""
    archive.rename(tmp_path / "elsewhere")
    archive.symlink_to(tmp_path / "elsewhere")
    assert classes.options() == ""


def test_a_broken_archive_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM passes over it, and says nothing where programs read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = classes.path()
    archive.parent.mkdir()
    archive.write_bytes(b"no archive")
    archive.chmod(0o600)
    command = [str(find_java_home() / "bin" / "java"), *classes.options().split(), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "archive" not in done.stderr.lower()


def test_behind_a_demonstration_it_ends_with_that(tmp_path: Path) -> None:
    """As `make run` starts it, however that ends."""
    words = f"{shlex.quote(sys.executable)} -m spark.support.classes --behind $$ & echo $!; exec sleep 3600"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    demonstration = subprocess.Popen(["sh", "-c", words], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    assert demonstration.stdout is not None
    with demonstration.stdout as said:
        behind = int(said.readline())
        demonstration.kill()
        demonstration.wait()
    until(lambda: command_line(behind) == b"", 3 * PATIENCE_SECONDS)


def test_what_is_not_wanted_any_more_is_given_up_with_all_that_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = iter((True, False))
    assert not classes.make(lambda: next(asked))
    assert list((tmp_path / "fastpath").iterdir()) == []
    until(lambda: not [path for path in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in told(path)])


def told(process: Path) -> bytes:
    """The command line of a process that may have ended."""
    return command_line(int(process.name))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for said in ("preparing Spark's classes, once: the demonstration starts in half the time then\n", ""):
        done = subprocess.run(
            [sys.executable, "-m", "spark.support.classes"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert (done.stdout, done.stderr) == (said, "")
    assert classes.path().stat().st_size > 10_000_000
    program = "from spark.session import build; print(build('x').range(3).count())"
    monkeypatch.setenv("REALTIME_SPARK_CONF", f'{{"spark.driver.extraJavaOptions": "{classes.options()}"}}')
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3"]
