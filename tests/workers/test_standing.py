"""A node that stood still as a whole goes on as if nothing had been: links, clients, readiness, the next take-over."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.spread import kill_worker, spread
from tests.support.edge.wire import WirePublisher
from tests.support.server.watched import logged, readiness
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:0"

STOOD_SECONDS = 12
"""Longer than any silence that is judged: of workers, links, pings, and what is known of who is there."""


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 1])
def test_a_node_that_stood_still_goes_on(kept: int) -> None:
    """No link is cut, no client closed, nobody told to have left, and the node is soon ready; then one worker dies."""
    options = {"workers": 3, "listen": LISTEN, "log_format": "json", "ping_seconds": 10, "hang_seconds": 4}
    with Sidecar(**options) as sidecar, spread(sidecar, 3) as clients:
        for client in clients.all:
            client.subscribe("/standing/one", "/__sys__/presence/standing/one")
        with WirePublisher(sidecar) as publisher:
            publisher.publish(["/standing/one", "before"])
            pids = [sidecar.ready["pid"], *sidecar.ready["workers"]]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                publisher.packet("batch", 2, [["/standing/one", "meanwhile"]])
                subprocess.run(["sleep", f"{STOOD_SECONDS}"], check=True)  # as long as it is to stand still
            finally:
                for pid in reversed(pids) if kept else pids:
                    os.kill(pid, signal.SIGCONT)
            assert publisher.next()[0] == "ack"
        for client in clients.all:
            assert client.texts(2)[-1:] == ["meanwhile"]
        until(lambda: readiness(sidecar) == {})  # that it stood still is remembered for five seconds
        for event in ("worker hangs", "worker killed", "worker silent as others are"):
            assert logged(sidecar, event) == []
        for words in ("is over", "restarting it", "ping_timeout", "did not keep up", "is silent for"):
            assert words not in sidecar.log
        with Control(sidecar.control) as control:
            assert control.stats()["disconnects"] == control.stats()["connects"] - 3, "only those of the spreading"
        kill_worker(sidecar, kept, 3)
        until(lambda: readiness(sidecar) == {}, 15)
