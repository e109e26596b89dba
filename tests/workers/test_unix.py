"""One unix socket for all workers: each takes from it, a restarted one too, and nobody while the node is drained."""

from __future__ import annotations

import os
from contextlib import ExitStack

from fastpath.client.control.client import Control
from tests.support.edge.spread import figures_by_worker, kill_worker
from tests.support.edge.wire import Socket, WireClient, request
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def test_all_workers_take_from_one_unix_socket() -> None:
    sidecar = Sidecar(workers=2)
    path = str(sidecar.folder / "clients.sock")
    sidecar.settings["listen"] = f"clients+unix://{path}"
    with sidecar:
        assert sidecar.ready["clients"] == [path]
        both_have_clients(sidecar, path)
        with Control(sidecar.control) as control:
            control.drain()
            until(lambda: not accepts(path))
            kill_worker(sidecar, 1, 2)
            assert not accepts(path), "the one that took its place drains, too"
            control.undrain()
            # One worker hears of it after the other, and who does not know yet still ends what it takes.
            until(lambda: sidecar.log.count("accepting again: ") == 2)
            assert accepts(path)
        both_have_clients(sidecar, path)
        sidecar.stop()
        assert not os.path.exists(path)


def test_who_finds_all_workers_full_waits_for_a_place() -> None:
    sidecar = Sidecar(workers=2, connections_max=10)
    path = str(sidecar.folder / "clients.sock")
    sidecar.settings["listen"] = f"clients+unix://{path}"
    with sidecar, ExitStack() as stack:
        inside = [stack.enter_context(WireClient(path)) for _ in range(18)]
        until(lambda: sidecar.log.count("full with 9 connections") == 2)
        waiting = stack.enter_context(Socket(path, first=request()))
        for client in inside:
            assert client.ask("ping", "pong")
        assert waiting.silent()
        for client in inside[:4]:
            client.sock.close()
        assert waiting.read(12) == b"HTTP/1.1 101"


def both_have_clients(sidecar: Sidecar, path: str) -> None:
    """Connect until each of the two workers has a client."""
    clients: list[WireClient] = []

    def spread() -> bool:
        clients.append(WireClient(path))
        return all(worker["connections"] for worker in figures_by_worker(sidecar))

    try:
        until(spread)
    finally:
        for client in clients:
            client.sock.close()


def accepts(path: str) -> bool:
    """Whether a client comes in."""
    try:
        with WireClient(path) as client:
            return bool(client.ask("ping", "pong"))
    except Exception:
        return False
