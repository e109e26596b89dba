"""What is measured and counted where Redis numbers (docs/operate/figures.md)."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from fastpath.client.control.client import Control
from tests.support.edge.figures import Change
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.mark.parametrize("workers", [1, 2])
def test_latency_counts_from_where_redis_has_it_and_publishers_wait_while_it_is_away(workers: int) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        sidecar = stack.enter_context(Sidecar(engine=redis.url, workers=workers))
        control = stack.enter_context(Control(sidecar.control))
        with WireClient(sidecar) as client, WirePublisher(sidecar, publisher="feed") as publisher:
            client.subscribe("/redis/one")
            change = Change(control)
            publisher.publish(["/redis/one", "first"])  # the reading of its group begins
            assert client.message()[3] == "first"
            until(lambda: change.of_latencies()[0] == 1)  # it is counted after it has been written
            change = Change(control)
            publisher.publish(["/redis/one", "1"], ["/redis/one", "2"])
            assert client.texts(2) == ["1", "2"]
            until(lambda: change.of_latencies()[0] == 2)
            assert change.of_latencies()[1] >= 0
            redis.freeze()
            publisher.batch += 1
            publisher.packet("batch", publisher.batch, [["/redis/one", "3"], ["/redis/one", "4"]])
            row = until(lambda: (now := control.publishers()["publishers"][0])["oldest_ms"] >= 300 and now)
            assert (row["unacknowledged"], row["batches"], row["publisher"]) == (2, 1, "feed")
            redis.thaw()
            assert client.texts(2) == ["3", "4"]
            assert publisher.next()[0] == "ack"
            row = control.publishers()["publishers"][0]
            assert (row["unacknowledged"], row["oldest_ms"], row["messages"]) == (0, 0, 5)


def test_what_could_not_be_stored_is_counted_also_where_nobody_waits_for_an_answer() -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        sidecar = stack.enter_context(Sidecar(engine=redis.url))
        control = stack.enter_context(Control(sidecar.control))
        with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
            publisher.publish(["/redis/one", "x"])
            redis.kill()
            client.say("publish", subject="/redis/one", content="x")
            [result] = publisher.publish(["/redis/one", "x"])
            assert result[0] == "unavailable"
            figures = until(lambda: (now := control.stats())["publications_failed"] == 2 and now)
            assert figures["publications_failed_unavailable"] == 2
            assert figures["publications_refused"] == 0
