"""One sidecar on a real Redis: the stories of delivery, as they go with the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import SidecarSilent
from tests.edge.clients import test_connection as test_delivery
from tests.edge.clients.test_connection import (  # the same stories, on another engine
    test_nothing_is_missed_or_doubled_between_the_snapshot_and_live,
    test_standard_quality_in_a_guaranteed_server,
    test_the_snapshot_table,
)
from tests.edge.clients.test_wildcards import test_coming_back, test_what_is_there_and_what_comes_to_be
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

__all__ = [
    "test_coming_back",
    "test_nothing_is_missed_or_doubled_between_the_snapshot_and_live",
    "test_standard_quality_in_a_guaranteed_server",
    "test_the_snapshot_table",
    "test_what_is_there_and_what_comes_to_be",
]

pytestmark = pytest.mark.redis

_NUMBERS = count()


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture(autouse=True)
def on_redis(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sidecar of a story has a data set of its own."""

    def sidecar(**settings: object) -> Sidecar:
        return Sidecar(**{"engine": redis.url, "redis_prefix": f"p{next(_NUMBERS)}"} | settings)

    monkeypatch.setattr(test_delivery, "Sidecar", sidecar)


@pytest.fixture(scope="module")
def shared(redis: RedisServer) -> Iterator[Sidecar]:
    with Sidecar(engine=redis.url, redis_prefix="shared", mode="none", handshake_seconds=5) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def test_ports_open_when_redis_is_there_and_the_process_stops_before() -> None:
    server = RedisServer()
    sidecar = Sidecar(engine=server.url)
    try:
        with pytest.raises(AssertionError, match="was not ready"), _impatient():
            sidecar.start()
        until(lambda: "cannot" in sidecar.log or "reading from Redis" in sidecar.log)
        process = sidecar.process
        assert process is not None
        sidecar.stop()
        assert process.returncode == 0
        with server:
            sidecar.start()
    finally:
        sidecar.__exit__()


class _impatient:
    """Wait for a sidecar that cannot become ready for less than usual."""

    def __enter__(self) -> None:
        from tests.support import sidecar

        self._seconds, sidecar.READY_SECONDS_MAX = sidecar.READY_SECONDS_MAX, 1

    def __exit__(self, *_: object) -> None:
        from tests.support import sidecar

        sidecar.READY_SECONDS_MAX = self._seconds


def test_a_node_whose_redis_is_away_answers_the_rest() -> None:
    """It makes publications wait; that is no reason to take it for hung, and to ask it nothing for some seconds."""
    with (
        RedisServer() as server,
        Sidecar(engine=server.url) as sidecar,
        Nodes([sidecar.control], timeout_seconds=1) as nodes,
    ):
        assert nodes.publish([["/a/b", "before"]])["results"] == [1]
        server.kill()
        for _ in range(2):
            with pytest.raises(SidecarSilent):  # after its own second, and not refused at once
                nodes.publish([["/a/b", "meanwhile"]])
            assert nodes.hello()["engine"] == "redis"
            assert nodes.snapshot("/a/b")["message"]["content"] == "before"
