"""Clients on every worker of a sidecar, whom the kernel spreads as it likes."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

TRIES_MAX = 400
"""A worker that is short of CPU may take nobody for a while, in which the others take very many."""


class Spread:
    """One client on each worker; ``first`` is that of the first worker, ``others`` are the rest."""

    def __init__(self, sidecar: Sidecar, workers: int, token: str = "", form: str | None = None) -> None:
        self.sidecar = sidecar
        with Control(sidecar.control) as control:
            self.server = control.hello()["server"]
        by_server: dict[str, WireClient] = {}
        end = time.monotonic() + PATIENCE_SECONDS
        for tried in count():
            if tried >= TRIES_MAX and time.monotonic() > end:
                break
            client = WireClient(sidecar, form)
            server = client.ask("connect", "connected", **({"token": token} if token else {}))["server"]
            if server in by_server:
                client.sock.close()
            by_server.setdefault(server, client)
            if len(by_server) == workers:
                break
        assert len(by_server) == workers, "a worker got no client"
        self.first = by_server.pop(self.server)
        self.others = list(by_server.values())
        self.all = [self.first, *self.others]

    def close(self) -> None:
        """Close them all."""
        for client in self.all:
            client.sock.close()


@contextlib.contextmanager
def spread(sidecar: Sidecar, workers: int, **options: Any) -> Iterator[Spread]:
    """A client on each worker, for a while."""
    clients = Spread(sidecar, workers, **options)
    try:
        yield clients
    finally:
        clients.close()


def figures_by_worker(sidecar: Sidecar) -> list[dict[str, Any]]:
    """The figures of each worker, the first one first; empty while the first one is away."""
    try:
        with Control(sidecar.control) as control:
            return list(control.stats()["by_worker"])
    except ClientError:
        return []


def kill_worker(sidecar: Sidecar, number: int, workers: int) -> None:
    """Kill one as a crash would, and wait until another has taken its place."""
    before = until(lambda: {int(one["worker"]): int(one["pid"]) for one in figures_by_worker(sidecar)}, 30)
    os.kill(before[number], signal.SIGKILL)

    def replaced() -> bool:
        pids = {int(one["worker"]): int(one["pid"]) for one in figures_by_worker(sidecar)}
        return len(pids) == workers and pids[number] != before[number]

    until(replaced, 30)


def publisher(sidecar: Sidecar) -> WirePublisher:
    """A publisher, as soon as the port is open."""

    def connected() -> WirePublisher | None:
        try:
            return WirePublisher(sidecar)
        except OSError:
            return None

    return until(connected)
