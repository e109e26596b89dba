"""What the web server says of its health, without being asked by anybody in particular."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from fastpath.client.control.client import Control
from realtime.nodes import control_sockets
from tests.support.rights import load_rights, rule
from tests.support.sidecar import ROOT, Sidecar
from tests.support.waiting import until


@pytest.fixture(scope="module")
def node() -> Iterator[Sidecar]:
    """A node that waits for its rights."""
    with Sidecar(mode="rules", token_secret="0123456789abcdef0123456789abcdef") as running:
        yield running


@pytest.fixture
def nodes_are(settings: Any) -> Any:
    """Makes these the nodes of the settings."""

    def use(*addresses: str) -> None:
        settings.REALTIME = settings.REALTIME | {"CONTROL": list(addresses)}

    return use


def ask(path: str = "/readyz") -> tuple[int, dict[str, Any]]:
    """Status and answer."""
    response = Client().get(path)
    assert "no-store" in response["Cache-Control"]
    return response.status_code, response.json()


@pytest.mark.slow
@pytest.mark.django_db
def test_ready_while_the_node_is(node: Sidecar, nodes_are: Any) -> None:
    nodes_are(node.control)
    reasons = {"rights": "they have not arrived from Django yet"}
    until(lambda: ask() == (503, {"status": "unavailable", "reasons": reasons}))
    assert ask("/healthz") == (200, {"status": "ok"})
    load_rights(node.control, rule(1, "everyone", "/**"))
    until(lambda: ask() == (200, {"status": "ok"}))
    with Control(node.control) as own:
        own.drain()
        until(lambda: "draining" in ask()[1].get("reasons", ()))
        own.undrain()
    until(lambda: ask()[0] == 200)


@pytest.mark.django_db
def test_one_node_of_two_is_enough(node: Sidecar, nodes_are: Any, tmp_path: Path) -> None:
    load_rights(node.control, rule(1, "everyone", "/**"), generation=2)
    away = str(tmp_path / "away.sock")
    nodes_are(away, node.control)
    until(lambda: ask() == (200, {"status": "ok"}))
    nodes_are(away)
    assert ask() == (503, {"status": "unavailable", "reasons": {"nodes": "the sidecar does not answer"}})
    nodes_are(away, f"{away}2")
    assert ask()[1]["reasons"] == {"nodes": "none of 2 nodes answers"}


def sockets(pid: int) -> int:
    """How many it has open: it also opens files now and then, to look at its own processes."""
    found = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += os.readlink(file).startswith("socket:")
    return found


def test_the_connections_that_are_shared_are_few_and_closed_at_the_end(node: Sidecar, nodes_are: Any) -> None:
    nodes_are(node.control)
    control_sockets.close()
    with Control(node.control) as last:
        last.hello()  # by now the node has seen the others go
        others = sockets(node.pid) - 1
    for seconds in range(1, 20):
        control_sockets.control(seconds).hello()
    until(lambda: sockets(node.pid) == others + control_sockets.SHARED_MAX)
    control_sockets.close()
    until(lambda: sockets(node.pid) == others)


def test_only_to_be_read() -> None:
    for path in ("/healthz", "/readyz"):
        assert Client().post(path).status_code == 405


@pytest.mark.slow
def test_without_its_database_and_without_tls(tmp_path: Path) -> None:
    """In a project of which nothing is there, behind a proxy that ends TLS: who asks without TLS is not sent away."""
    program = (
        "import django\n"
        "django.setup()\n"
        "from django.test import Client\n"
        "for path in ('/healthz', '/readyz', '/'):\n"
        "    answer = Client().get(path, headers={'host': 'localhost'})\n"
        "    print(answer.status_code, answer.content.decode())\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FASTPATH_", "REALTIME_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=kept
        | {
            "DJANGO_SETTINGS_MODULE": "realtime.settings",
            "REALTIME_VAR": str(tmp_path),
            "REALTIME_DATABASE": str(tmp_path / "none" / "db"),
            "REALTIME_HTTPS": "proxy",
            "FASTPATH_LOG_FORMAT": "json",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        '200 {"status": "ok"}',
        '503 {"status": "unavailable", "reasons": {"database": "it does not answer", '
        '"nodes": "the sidecar does not answer"}}',
        "301 ",
    ]
    [line] = [json.loads(line) for line in done.stderr.splitlines() if "the database does not answer" in line]
    assert line["event"] == "the database does not answer: unable to open database file"
    assert (line["level"], line["part"], line["worker"]) == ("error", "realtime.health", "django")
