"""The ticks job as a process of its own: what it publishes, how it ends, and how it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastpath.client.blocking import connect
from fastpath.client.control.client import Control
from spark.support.histories import INSTRUMENTS
from tests.support.processes import send
from tests.support.sidecar import ROOT, Sidecar
from tests.support.spark.processes import members
from tests.support.tokens import SECRET, mint_jwt
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.spark
START_SECONDS_MAX = 150


@contextmanager
def job(url: str, folder: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """In a session of its own, so that whatever it starts can be counted; nothing of it stays."""
    command = [sys.executable, "-m", "spark.jobs.ticks", "--url", url, *words]
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        send(signal.SIGKILL, members(process.pid))
        process.wait()


def figure(sidecar: Sidecar, name: str) -> float:
    with Control(sidecar.control) as control:
        figures: Mapping[str, float] = control.stats()
    return figures[name]


@pytest.mark.slow
def test_it_publishes_every_stock_and_ends_in_order(tmp_path: Path) -> None:
    token = mint_jwt("spark", publish=["/stocks/**", "/__sys__/jobs/**"], subscribe=["/stocks/**"])
    subjects = {f"/stocks/us/{symbol}" for symbol in INSTRUMENTS}
    with (
        Sidecar(mode="jwt", token_secret=SECRET) as sidecar,
        connect(sidecar.client_url, token) as client,
        client.subscribe(subjects) as stream,
        job(sidecar.publisher_url, tmp_path, REALTIME_PUBLISH_TOKEN=token) as process,
    ):
        seen: dict[str, list[str]] = {}
        while len(seen) < len(subjects) or min(map(len, seen.values())) < 3:
            message = stream.get(START_SECONDS_MAX)
            assert float(message.content) > 0
            assert set(message.fields) == {
                "change",
                "change_pct",
                "volume",
                "bid",
                "ask",
                "date",
                "name",
                "exchange",
                "simulated",
                "sent",
            }
            seen.setdefault(message.subject, []).append(message.fields["date"])
        assert all(days[:3] == ["2010-01-04", "2010-01-05", "2010-01-06"] for days in seen.values())
        process.terminate()
        assert process.wait(3 * PATIENCE_SECONDS) == 0
        until(lambda: not members(process.pid))
    output = (tmp_path / "output").read_text()
    assert output == f"ticks: publishing to {sidecar.publisher_url}, a batch every 300 ms\n"


@pytest.mark.slow
def test_a_refused_token_ends_it_with_one_line(tmp_path: Path) -> None:
    with (
        Sidecar(mode="jwt", token_secret=SECRET) as sidecar,
        job(sidecar.publisher_url, tmp_path, REALTIME_PUBLISH_TOKEN="no token") as process,
    ):
        assert process.wait(START_SECONDS_MAX) == 1
    last = (tmp_path / "output").read_text().splitlines()[-1]
    assert last.startswith("ticks: the job failed: the server refused the connection with 4501 bad_token")
    assert "Traceback" not in (tmp_path / "output").read_text()


@pytest.mark.slow
def test_nothing_outlives_it_when_it_is_killed(sidecar: Sidecar, tmp_path: Path) -> None:
    with job(sidecar.publisher_url, tmp_path) as process:
        until(lambda: figure(sidecar, "publishers") > 0, START_SECONDS_MAX)
        process.kill()
        until(lambda: not members(process.pid), 10)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_ends_it_and_its_jvm(tmp_path: Path, number: signal.Signals) -> None:
    with job("127.0.0.1:1", tmp_path) as process:
        until(lambda: len(members(process.pid)) > 1, START_SECONDS_MAX)
        process.send_signal(number)
        assert process.wait(3 * PATIENCE_SECONDS) == 0
        until(lambda: not members(process.pid), 10)
    assert (tmp_path / "output").read_text() == ""
