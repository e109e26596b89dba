"""A full worker closes its listener, so that newcomers go to those that have room."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections import Counter
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.wire import Ended, WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

EACH = 6
LISTEN = "clients://127.0.0.1:0,publishers://127.0.0.1:0,metrics://127.0.0.1:0"
FULL = {"full": "there is no place for another client"}


def connected(sidecar: Sidecar) -> tuple[WireClient, str] | None:
    """A client and the server it is on; None when nobody listens."""
    try:
        client = WireClient(sidecar)
    except (ConnectionError, Ended):
        return None
    return client, client.ask("connect", "connected")["server"]


def test_every_place_is_taken_and_freed_ones_again() -> None:
    with Sidecar(workers=2, connections_max=EACH) as sidecar:
        clients = []
        for _ in range(2 * EACH):
            one = connected(sidecar)
            assert one is not None
            clients.append(one)
        assert sorted(Counter(server for _, server in clients).values()) == [EACH, EACH]
        assert connected(sidecar) is None, "nobody has room"
        freed = clients[0][1]
        left = [client for client, server in clients if server == freed][:3]
        for client in left:
            client.sock.close()
        again = until(lambda: connected(sidecar))
        assert again[1] == freed
        until(lambda: sidecar.log.count("the other workers take the next") >= 2)  # a thread writes the log
        for client, _ in (*clients, again):
            client.sock.close()


def readiness(sidecar: Sidecar) -> tuple[int, dict[str, Any]]:
    """What /readyz answers: its status, and the reasons."""
    connection = http.client.HTTPConnection(sidecar.ready["metrics"][0], timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        reasons = json.loads(answer.read()).get("reasons", {})
    finally:
        connection.close()
    return answer.status, reasons


def asked(sidecar: Sidecar) -> dict[str, Any]:
    """What ``health`` on the control socket answers."""
    with Control(sidecar.control) as control:
        answer: dict[str, Any] = control.health()
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_node_says_so_until_somebody_has_left(workers: int) -> None:
    """Without figures too, and not while any worker has room; the log tells when."""
    with Sidecar(workers=workers, connections_max=EACH, listen=LISTEN, statistics="off") as sidecar:
        clients: list[tuple[WireClient, str]] = []
        while len(clients) < workers * EACH:
            one = connected(sidecar)
            assert one is not None
            clients.append(one)
            if len({server for _, server in clients}) < workers or len(clients) < EACH:
                assert readiness(sidecar) == (200, {})
        until(lambda: readiness(sidecar) == (503, FULL))
        assert asked(sidecar) == {"ready": False, "reasons": FULL}
        until(lambda: 'not ready full="there is no place' in sidecar.log)
        freed = clients[-1][1]
        for client in [client for client, server in clients if server == freed][:3]:
            client.sock.close()
        until(lambda: readiness(sidecar) == (200, {}))
        assert asked(sidecar) == {"ready": True, "reasons": {}}
        again = until(lambda: connected(sidecar))
        assert again[1] == freed, "which alone has room"
        for client, _ in (*clients, again):
            client.sock.close()


@pytest.mark.slow
def test_a_worker_that_is_gone_takes_nobody_and_its_successor_does() -> None:
    """The worker that is left is full."""
    with Sidecar(workers=2, connections_max=EACH, listen=LISTEN) as sidecar:
        clients = [one for _ in range(2 * EACH) if (one := connected(sidecar)) is not None]
        until(lambda: readiness(sidecar) == (503, FULL))
        os.kill(sidecar.pid, signal.SIGSTOP)  # its parent, which would restart it
        try:
            os.kill(sidecar.ready["workers"][1], signal.SIGKILL)
            until(lambda: readiness(sidecar) == (503, FULL | {"workers": "worker 1 is gone"}))
        finally:
            os.kill(sidecar.pid, signal.SIGCONT)
        until(lambda: readiness(sidecar) == (200, {}))
        for client, _ in clients:
            client.sock.close()
