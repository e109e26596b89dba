"""The edge on a system that is not POSIX's: plain asyncio, no fcntl, fork, epoll or unix socket, sockets are no files.

The sidecars run on this Linux with all of that taken away (tests/support/without_posix.py), and the tests of the edge
that need no unix socket are run with them once more.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastpath.client.blocking import connect
from fastpath.client.control import Control
from tests.support.certificates import Certificate
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import WITHOUT_POSIX, Sidecar

COMMAND = [sys.executable, "-m", "tests.support.without_posix"]
CLIENTS = (
    "bad_values", "batches", "conflated", "connection", "event_stream", "handshake", "incoming", "limits",
    "own_subjects", "posted_frames", "session_requests", "wildcards",
)  # fmt: skip
SUITES = (
    *(f"tests/edge/clients/test_{name}.py" for name in CLIENTS),
    *(f"tests/edge/publishers/test_{name}.py" for name in ("connection", "job_reports", "ranges", "retries")),
    *(f"tests/edge/plain_http/test_{name}.py" for name in ("publishing", "reading")),
)
"""Left out is what holds plain sockets to less than a transport has: what waits in its buffer goes out, as with TLS."""
NOT_THERE = (
    "test_a_full_memory_refuses_what_is_new",  # no figure of its memory
    "test_who_says_nothing_on_such_a_port_takes_no_place_but_there_are_not_many",  # each has a transport, and a place
    "test_five_hundred_half_open_connections_disturb_nobody",  # more than select can watch
    "test_all_workers_have_readers_who_come_back_to_any",  # one process
    "test_it_ends_with_the_user_on_every_worker",
)
"""Tests of what such a system has not."""

TESTS_MIN = 450
"""Fewer would mean that they are no longer found."""


def sidecar(**settings: object) -> Sidecar:
    """One that runs so."""
    made = Sidecar(**{"control": ""} | settings)
    made.command = COMMAND
    return made


def test_it_serves_what_was_published_and_ends_when_told(tmp_path: Path) -> None:
    """Over the client port and the publisher port, and after a restart from the journal."""
    node = sidecar(journal="batch", data=tmp_path / "journal", audit="access", audit_folder=tmp_path / "audit")
    with node:
        with WirePublisher(node) as publisher, WireClient(node) as client:
            client.subscribe("/a/one")
            publisher.publish(["/a/one", "first\nsecond"])
            assert client.next()[3] == "first\nsecond"
        node.stop()
        node.start()
        with connect(node.client_url) as again, again.subscribe("/a/one") as stream:
            assert stream.get(30).content == "first\nsecond"
        assert "Traceback" not in node.log


def test_control_is_over_tls_on_loopback(tmp_path: Path) -> None:
    """Where there is no unix socket, Django's way in is the control port with certificates."""
    own, django = Certificate(tmp_path, "node", ["127.0.0.1"]), Certificate(tmp_path, "django")
    tls = f"control+tls://127.0.0.1:0?cert={own.cert}&key={own.key}&ca={django.cert}"
    with sidecar(listen=f"clients://127.0.0.1:0,publishers://127.0.0.1:0,{tls}") as node:
        (address,) = node.ready["control_tls"]
        with Control(f"tls://{address}?ca={own.cert}&cert={django.cert}&key={django.key}") as control:
            assert "connections" in control.stats()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"FASTPATH_CONTROL": "c.sock"}, "FASTPATH_CONTROL: cannot listen on c.sock: this system has no unix sockets"),
        ({"FASTPATH_LISTEN": "clients+unix:///tmp/c.sock"}, "this system has no unix sockets"),
        ({"FASTPATH_USER": "nobody"}, "FASTPATH_USER: this system has no users to become"),
    ],
)
def test_what_the_system_has_not_is_told(settings: dict[str, str], why: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    given = {"FASTPATH_LISTEN": "clients://127.0.0.1:0", "FASTPATH_MODE": "none"} | settings
    done = subprocess.run(COMMAND, cwd=ROOT, env=kept | given, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, why in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_edges_suite_holds() -> None:
    """All that clients and publishers see, on each transport."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *SUITES, "-m", "not slow", "-n", "2"]
    argv += ["-k", "not (" + " or ".join(NOT_THERE) + ")"]
    with Program(argv, {WITHOUT_POSIX: "1"}, "") as suite:
        status = suite.wait(1700)
    assert status == 0, suite.output[-8000:]
    found = re.search(r"(\d+) passed", suite.output)
    assert found, suite.output
    assert int(found[1]) >= TESTS_MIN
