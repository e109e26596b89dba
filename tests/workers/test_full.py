"""A full worker closes its listener, so that newcomers go to those that have room."""

from __future__ import annotations

from collections import Counter

from tests.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

EACH = 6


def connected(sidecar: Sidecar) -> tuple[WireClient, str] | None:
    """A client and the server it is on; None when nobody listens."""
    try:
        client = WireClient(sidecar)
    except ConnectionError:
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
        assert sidecar.log.count("the other workers take the next") >= 2
        for client, _ in (*clients, again):
            client.sock.close()
