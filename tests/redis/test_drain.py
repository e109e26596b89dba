"""A node of a cluster stops: its clients and publishers go to another one and lose nothing on the way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from fastpath.client.blocking import connect
from fastpath.client.control.client import Control
from fastpath.client.control.nodes import Nodes
from fastpath.client.publisher.publisher import Publisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

SUBJECT = "/drain/cluster"

pytestmark = pytest.mark.redis


@pytest.fixture
def pair() -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two nodes over one Redis; the first one sends its clients to the second."""
    with RedisServer() as redis, Sidecar(engine=redis.url, workers=2) as other:
        servers = {"servers": other.client_url, "drain_per_second": 20, "drain_seconds": 10}
        with Sidecar(engine=redis.url, workers=2, **servers) as one:
            yield one, other


def test_clients_and_publishers_of_a_node_that_stops_go_on_at_another(pair: tuple[Sidecar, Sidecar]) -> None:
    one, other = pair
    clients = [connect(one.client_url) for _ in range(6)]
    over = threading.Event()
    sent = 0

    def feed() -> None:
        nonlocal sent
        with Publisher([one.publisher_url, other.publisher_url]) as publisher:
            while not over.wait(0.003):
                sent += 1
                publisher.publish(SUBJECT, str(sent))

    thread = threading.Thread(target=feed)
    try:
        streams = [client.__enter__().subscribe(SUBJECT) for client in clients]
        thread.start()
        seen = [[int(stream.get(PATIENCE_SECONDS).content)] for stream in streams]
        os.kill(one.pid, signal.SIGTERM)
        assert one.process is not None
        assert one.process.wait(3 * PATIENCE_SECONDS) == 0
        over.set()
        thread.join(PATIENCE_SECONDS)
        for stream, numbers in zip(streams, seen, strict=True):
            while numbers[-1] < sent:
                numbers.append(int(stream.get(PATIENCE_SECONDS).content))
            assert numbers == list(range(numbers[0], sent + 1)), "each once, in order"
    finally:
        over.set()
        for client in clients:
            client.close()
    assert "Traceback" not in one.log + other.log


def test_django_publishes_through_the_next_node_and_what_both_got_is_stored_once(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    one, other = pair
    with Nodes([one.control, other.control]) as nodes, Control(other.control) as control:
        first = nodes.publish([[SUBJECT, "1"]])
        assert first["results"] == [1]
        row = [SUBJECT, "2", None, {"id": 1}]
        with Control(one.control) as direct:
            direct.publish([row], publisher="same")
        one.kill()
        assert control.publish([row], publisher="same")["results"] in ([2], [[first["epoch"], 2]])
        assert nodes.publish([[SUBJECT, "3"]])["results"] == [3]
