"""The statistics on addresses of their own, as `runrealtime` starts them: HTTP, HTTPS and JMX."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Chain
from tests.support.ports import free_port
from tests.support.processes import command_line, descendants, running
from tests.support.realtime.everything import Everything, environment
from tests.support.realtime.jmx_reader import read
from tests.support.realtime.server import ROOT, Program
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.slow

PASSWORD = "grün 7"
STATISTICS = 7 * 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of run-time files with a migrated database."""
    made = tmp_path_factory.mktemp("var")
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment(made), check=True)
    return made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """For both; clients know its authority alone."""
    return Chain(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def everything(folder: Path, certificate: Chain) -> Iterator[Everything]:
    """All of it, with TLS and a password for both."""
    stats, jmx = free_port(), free_port()
    with Everything(
        folder,
        REALTIME_STATS_LISTEN=f"https://127.0.0.1:{stats}?{certificate.options}",
        REALTIME_STATS_PASSWORD=PASSWORD,
        REALTIME_JMX=f"jmx+tls://127.0.0.1:{jmx}?{certificate.options}",
        REALTIME_JMX_PASSWORD=PASSWORD,
    ) as program:
        until(lambda: "MBeans at" in program.output and "figures | " in program.output, 20)
        yield program


def get(url: str, certificate: Chain, password: str = PASSWORD, **headers: str) -> tuple[int, str]:
    """Status and body."""
    if password:
        headers["Authorization"] = "Basic " + b64encode(f"any:{password}".encode()).decode()
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own server
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=certificate.trusting()) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_json_csv_and_metrics_over_tls_for_the_password(everything: Everything, certificate: Chain) -> None:
    site = everything.latest(r"statistics +(https://\S+)/api/stats/")

    def sampled() -> Any:
        windows = json.loads(get(f"{site}/api/stats/", certificate)[1])
        return windows if windows["connections"]["1min"]["average"] is not None else None

    windows = until(sampled, 20)
    assert sum(map(len, windows.values())) == STATISTICS
    _, text = get(f"{site}/api/stats/?format=csv", certificate)
    assert len(list(csv.reader(io.StringIO(text)))) > STATISTICS // 12
    _, text = get(f"{site}/api/stats/series/?indicator=connections&window=1min", certificate)
    assert json.loads(text)["window"] == "1min"
    status, text = get(f"{site}/metrics", certificate)
    assert status == 200
    assert text.count("\nfastpath_statistics{") == 3 * STATISTICS
    assert "\nfastpath_up{" in text
    for path in ("/api/stats/", "/api/stats/series/?indicator=connections&window=1min", "/metrics"):
        assert get(site + path, certificate, "")[0] == 401
        assert get(site + path, certificate, "grün 8")[0] == 401
    for path in ("/healthz", "/readyz"):
        assert get(site + path, certificate, "")[0] in (200, 503)
    for path in ("/", "/admin/", "/monitoring/", "/static/admin/css/base.css", "/snapshot?subject=/a"):
        assert get(site + path, certificate)[0] == 404, "there are no pages"
    assert get(f"{site}/api/stats/", certificate, Host="by.any.name")[0] == 200
    with pytest.raises(OSError):
        get(site.replace("https", "http") + "/api/stats/", certificate)


def test_mbeans_of_nodes_workers_and_windows(everything: Everything, certificate: Chain) -> None:
    port = int(everything.latest(r"MBeans +service\S+:(\d+)/jmxrmi"))

    def ask(*what: str) -> list[str]:
        return read(port, *what, logins=[f"any/{PASSWORD}"], trusted=certificate.root)

    windows = "fastpath:type=Statistics,indicator=connections,window=15mo"
    nodes, workers, all_windows, maximum = ask(
        "names=fastpath:type=Node,*",
        "names=fastpath:type=Worker,*",
        "names=fastpath:type=Statistics,*",
        f"{windows}!maximum",
    )
    node = nodes.strip("[]")
    assert node.endswith('fastpath.sock"')
    assert workers.count("type=Worker") == 2
    assert all_windows.count("window=") == STATISTICS
    assert maximum in ("0.0", "null")
    assert ask(f"{node}!up", f"{node}!connections", f"{node}!error") == ["1.0", "0.0", ""]


def test_what_dies_is_started_again_and_nothing_is_left(everything: Everything, certificate: Chain) -> None:
    port = int(everything.latest(r"MBeans +service\S+:(\d+)/jmxrmi"))
    python = everything.pid("realtime.jmx")
    (java,) = java_below(python)
    os.kill(java, signal.SIGKILL)
    until(lambda: everything.pid("realtime.jmx") not in (None, python), 20)
    python = until(lambda: everything.pid("realtime.jmx"))
    until(lambda: everything.output.count("MBeans at") == 2, 20)
    (java,) = java_below(python)
    os.kill(python, signal.SIGKILL)
    until(lambda: not running({java}))
    until(lambda: everything.output.count("MBeans at") == 3, 30)
    assert read(port, "names=fastpath:type=Node,*", logins=[f"any/{PASSWORD}"], trusted=certificate.root)[0] != "[]"
    pids = descendants(everything.process.pid)
    everything.process.terminate()
    assert everything.wait(60) == 0
    assert not running(pids)
    assert "Traceback" not in everything.output


def java_below(pid: int) -> list[int]:
    """The Java processes that a process has started."""
    return [one for one in descendants(pid) if command_line(one).partition(b"\0")[0].endswith(b"java")]


@pytest.mark.parametrize("host", ["127.0.0.1", "*"])
def test_without_a_password_it_answers_to_its_own_names_alone(folder: Path, certificate: Chain, host: str) -> None:
    """Else a page elsewhere could have a browser on this machine read it, under a name of its own."""
    port = free_port()
    listen, url = f"http://{host}:{port}", f"http://127.0.0.1:{port}/api/stats/"
    variables = environment(folder) | {"REALTIME_STATS_LISTEN": listen, "REALTIME_ALLOWED_HOSTS": "figures.example.com"}
    with Program([sys.executable, "-m", "realtime.outside"], variables, "Listening on TCP address"):
        names = ("127.0.0.1", "localhost:9100", "figures.example.com", "evil.example.com", "0.0.0.0.example.com", "*")
        answers = [get(url, certificate, "", Host=name)[0] for name in names]
        forwarded = {"X-Forwarded-Host": "127.0.0.1"}
        answers.append(get(url, certificate, "", Host="evil.example.com", **forwarded)[0])
    assert answers == [200, 200, 200, 400, 400, 400, 400]


@pytest.mark.parametrize(
    ("variable", "value", "what"),
    [
        ("REALTIME_STATS_LISTEN", "http://127.0.0.1", "neither http://HOST:PORT nor"),
        ("REALTIME_JMX", "jmx://127.0.0.1:{taken}", "in use"),
    ],
)
def test_an_address_that_cannot_be_used_is_told_before_anything_starts(
    folder: Path, variable: str, value: str, what: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = subprocess.run(
            [sys.executable, "manage.py", "runrealtime", "--port", "0"],
            cwd=ROOT,
            env=environment(folder) | {variable: value.format(taken=taken.getsockname()[1])},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert answer.returncode == 1
    assert what in answer.stderr
    assert "Traceback" not in answer.stderr
