"""Limits by address and by user count over all workers, exactly, whichever of them a connection comes to."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.spread import kill_worker
from tests.support.edge.wire import Ended, WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

PER_ADDRESS = 6
TRIES = 20


def enter(sidecar: Sidecar, stack: ExitStack, count: int, address: str = "10.0.0.1") -> list[WireClient]:
    """Connect so many from one address."""
    headers = f"X-Forwarded-For: {address}\r\n"
    return [stack.enter_context(WireClient(sidecar, headers=headers)) for _ in range(count)]


def staying(clients: list[WireClient]) -> list[WireClient]:
    """Those that are served, and taken out of the list the others, who are told why not."""
    for client in list(clients):
        try:
            for _ in range(3):
                client.ask("ping", "pong")
        except Ended as end:
            assert end.code == 4006, end
            assert "connections_per_address_max" in end.reason
            clients.remove(client)
    return clients


def test_the_bound_is_that_of_all_workers_together() -> None:
    with Sidecar(workers=2, connections_per_address_max=PER_ADDRESS) as sidecar, ExitStack() as stack:
        clients = enter(sidecar, stack, TRIES)
        until(lambda: len(staying(clients)) <= PER_ADDRESS)
        assert len(clients) == PER_ADDRESS
        assert len(staying(enter(sidecar, stack, 3, "10.0.0.2"))) == 3
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["limited_connections_per_address"] == TRIES - PER_ADDRESS)
        for client in clients[:2]:
            client.sock.close()
        until(lambda: len(staying(enter(sidecar, stack, 1))) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("worker", [1, 0])
def test_it_stays_exact_when_a_worker_dies(worker: int) -> None:
    """Those of the other worker are still there and still count; the places of the dead one's are free."""
    with Sidecar(workers=2, connections_per_address_max=PER_ADDRESS) as sidecar, ExitStack() as stack:
        there = enter(sidecar, stack, TRIES)
        until(lambda: len(staying(there)) <= PER_ADDRESS)
        kill_worker(sidecar, worker, 2)
        alive = [client for client in there if not gone(client)]
        more = enter(sidecar, stack, TRIES)
        until(lambda: len(staying(more)) <= PER_ADDRESS - len(alive))
        assert len(staying(more)) == PER_ADDRESS - len(alive)
        assert len(staying(list(alive))) == len(alive)


def gone(client: WireClient) -> bool:
    """Whether its worker has died."""
    try:
        client.ask("ping", "pong")
    except (Ended, OSError):
        return True
    return False
