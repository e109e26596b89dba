"""A node on Redis that stood still does not take Redis for away: what it answered meanwhile waits to be read."""

from __future__ import annotations

import pytest

from tests.support.edge.stopping import stopped
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar

pytestmark = [pytest.mark.redis, pytest.mark.slow]

STOOD_SECONDS = 8.0
"""Longer than a node waits for Redis, and than any of its questions."""


@pytest.mark.parametrize("delivery", ["standard", "guaranteed"])
def test_a_node_that_stood_still_goes_on_with_redis(delivery: str) -> None:
    """It neither goes on by itself nor calls anything stale, and nobody is resynchronised."""
    with (
        RedisServer() as redis,
        Sidecar(engine=redis.url, delivery=delivery) as sidecar,
        WireClient(sidecar) as client,
        WirePublisher(sidecar) as publisher,
    ):
        client.subscribe("/awake/one")
        publisher.publish(["/awake/one", "before"])
        assert client.texts(1) == ["before"]
        with stopped(sidecar, STOOD_SECONDS):
            publisher.packet("batch", 2, [["/awake/one", "meanwhile"]])
        assert client.texts(1) == ["meanwhile"]
        for words in ("this node goes on by itself", "did not answer", "are not acknowledged", "stale"):
            assert words not in sidecar.log
