"""Django's way to several nodes after a time without Redis: it publishes as soon as Redis is back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fastpath.client.control.nodes import Nodes
from fastpath.client.errors import SidecarUnavailable
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

ROW = ["/a/b", "x"]


@pytest.mark.redis
def test_after_a_time_without_redis_nothing_waits_for_what_was_given_up() -> None:
    """Whether its end was told, or nobody waited for it."""
    with (
        RedisServer() as redis,
        Sidecar(engine=redis.url, mode="none") as node,
        Nodes([node.control], 8) as patient,
        Nodes([node.control], 0.5) as brief,
        Nodes([node.control]) as other,
        ThreadPoolExecutor() as pool,
    ):
        assert [nodes.publish([ROW])["results"] for nodes in (patient, brief)] == [[1], [2]]
        redis.freeze()
        told = pool.submit(patient.publish, [ROW, ROW])
        with pytest.raises(SidecarUnavailable):
            brief.publish([ROW])
        assert [result[0] for result in told.result()["results"]] == ["unavailable"] * 2
        redis.thaw()
        until(lambda: isinstance(other.publish([ROW])["results"][0], int))
        for nodes in (patient, brief):
            assert isinstance(nodes.publish([ROW])["results"][0], int)


def test_a_series_of_numbers_goes_on_while_all_is_stored() -> None:
    """So what is sent again to another node is stored once, and in order."""
    with Sidecar(mode="none") as node, Nodes([node.control]) as nodes:
        names = set()
        for _ in range(3):
            nodes.publish([ROW])
            names.add(nodes._publisher)
        assert len(names) == 1
        node.kill()
        with pytest.raises(SidecarUnavailable):
            nodes.publish([ROW])
        node.start()
        nodes.publish([ROW])
        assert nodes._publisher not in names
