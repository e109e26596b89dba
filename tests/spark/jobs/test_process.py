"""What a user gets to read of what Spark's processes print; and a real job that is interrupted in its terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.client.control.client import Control
from spark.jobs.process import without_noise
from tests.support.processes import command_line, send
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.processes import members
from tests.support.waiting import until

BROKEN = [
    b"Traceback (most recent call last):\n",
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n',
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n',
    b"BrokenPipeError: [Errno 32] Broken pipe\n",
]
OTHER = [b"Traceback (most recent call last):\n", b'  File "/x/pyspark/daemon.py", line 1\n', b"ValueError: no\n"]
OWN = [b"Traceback (most recent call last):\n", b'  File "/x/mine.py", line 1\n', BROKEN[-1]]


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ([b"a\n", *BROKEN, b"b\n"], [b"a\n", b"b\n"]),
        ([*BROKEN, *BROKEN], []),
        ([BROKEN[0], *BROKEN], []),
        ([b"a\n", *BROKEN[1:], b"b\n"], [b"a\n", b"b\n"]),
        ([*OTHER, b"b\n"], [*OTHER, b"b\n"]),
        ([*OWN], [*OWN]),
        ([*OTHER[:2]], [*OTHER[:2]]),
        ([b"a\n", BROKEN[0]], [b"a\n"]),
        ([b"WARNING: Using incubator modules: x\n", b"\n", b"b\n"], [b"b\n"]),
        ([b"  indented\n"], [b"  indented\n"]),
    ],
    ids=[
        "of a worker",
        "two",
        "mixed",
        "headless",
        "another error",
        "of other code",
        "cut off",
        "begun",
        "others",
        "no trace",
    ],
)
def test_only_the_trace_of_a_worker_that_was_let_go_is_left_out(lines: list[bytes], left: list[bytes]) -> None:
    assert list(without_noise(lines)) == left


@pytest.mark.spark
@pytest.mark.slow
def test_an_interrupt_in_the_terminal_ends_everything_without_a_word(tmp_path: Path) -> None:
    """Ctrl-C is told to every process of the job at once; `manage.py spark_job` gives the master and the address."""
    path = tmp_path / "output"
    environment = os.environ | {"REALTIME_VAR": str(tmp_path), "REALTIME_PUBLISH_TOKEN": "any"}
    with Sidecar() as sidecar, path.open("w") as output:
        process = subprocess.Popen(
            [*_MANAGE, "--url", sidecar.publisher_url, "--master", "local[1]", "ticks"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            with Control(sidecar.control) as control:

                def batches() -> int:
                    jobs = control.jobs()["jobs"]
                    return int(jobs[0]["fields"].get("batch", 0)) if jobs else 0

                until(lambda: batches() >= 2, 100)
                commands = [command_line(pid) for pid in members(process.pid)]
                assert any(b"java" in command and b"spark.master=local[1]" in command for command in commands)
                os.killpg(process.pid, signal.SIGINT)
                assert process.wait(60) == 0, path.read_text()
                until(lambda: not members(process.pid))
                assert until(lambda: control.jobs()["jobs"][0]["fields"]["state"] == "stopped")
        finally:
            send(signal.SIGKILL, members(process.pid))
            process.wait()
    [line] = path.read_text().splitlines()
    assert line.startswith(f"ticks: publishing to {sidecar.publisher_url}")


_MANAGE = [sys.executable, "manage.py", "spark_job"]
