"""Reading by positions on several nodes: what one has told another takes, and reading goes on there."""

from __future__ import annotations

import pytest

from fastpath.client.publisher.publisher import Publisher
from fastpath.client.publisher.reading import Range, Reader, Run
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.redis


def contents(reader: Reader, *ranges: Range) -> list[object]:
    """All contents that are read; nothing is missing."""
    found: list[object] = []
    for runs in reader.read(ranges):
        for run in runs:
            assert isinstance(run, Run), run
            found += run.contents
    return found


def test_positions_of_one_node_are_those_of_another() -> None:
    with (
        RedisServer() as redis,
        Sidecar(engine=redis.url) as one,
        Sidecar(engine=redis.url) as two,
        Publisher(one.publisher_url) as publisher,
        Publisher(two.publisher_url) as another,
        Reader(f"{one.publisher_url},{two.publisher_url}") as reader,
        Reader(two.publisher_url) as other,
    ):
        for number in range(20):
            publisher.publish("/n/a", str(number))
            epoch = until(lambda: reader.positions(["/n/a"])).get("/n/a", (0,))[0]
            # It may be a moment before the other node has it: it says so, and is asked again.
            assert contents(other, Range("/n/a", (epoch, number), (epoch, number + 1))) == [str(number)]
        one.kill()
        another.publish("/n/a", "20")
        seen = until(lambda: reader.positions(["/n/*"], news=True, wait_ms=100).get("/n/a"))
        assert seen.epoch == epoch
        assert contents(reader, Range("/n/a", (epoch, 18), (epoch, 21))) == ["18", "19", "20"]
