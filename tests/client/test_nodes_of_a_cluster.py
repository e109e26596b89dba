"""The clients over two nodes of one Redis: one dies or drains, and all that is published is stored once and read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client import Status, connect
from fastpath.client.publisher.publisher import Publisher
from tests.support.reconnecting import SOON
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil

A = "/a/a"
COUNT = 900


@pytest.fixture
def nodes() -> Iterator[dict[str, Sidecar]]:
    """Two nodes, by the address of their client port."""
    with (
        RedisServer() as redis,
        Sidecar(engine=redis.url, cache_messages=5000) as one,
        Sidecar(engine=redis.url, cache_messages=5000) as other,
    ):
        yield {one.client_url: one, other.client_url: other}


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_client_that_publishes_and_reads_moves_to_the_other_node(nodes: dict[str, Sidecar], end: str) -> None:
    seen: list[Status] = []
    options: dict[str, Any] = {"publish_queue_messages": COUNT, **SOON}
    async with (
        connect([(url, 100 - place) for place, url in enumerate(nodes)], **options) as client,
        connect(list(nodes)[1], on_status=seen.append) as other,
    ):
        status, stream, whole = client.status, client.subscribe(A), other.subscribe(A)
        await auntil(lambda: any(one.name == "subscribed" for one in seen))
        while client.url == other.url:  # the one that stays
            client.pause()
            client.resume()
            await auntil(lambda: client.connected)
        futures = []
        for number in range(COUNT):
            futures.append(client.enqueue(A, f"{number}"))
            if number == COUNT // 2:
                await auntil(lambda: futures[COUNT // 4].done())
                await asyncio.to_thread(getattr(nodes[client.url], end))
        positions = await asyncio.gather(*futures)
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            contents = [(await anext(whole)).content for _ in range(COUNT)]
            mine = [(await anext(stream)).content for _ in range(COUNT)]
        assert contents == [f"{number}" for number in range(COUNT)]
        assert mine == contents
        assert [position.seq for position in positions] == list(range(1, COUNT + 1))
        assert client.url == other.url
        names = []
        while "synchronised" not in names:
            names.append((await anext(status)).name)
        assert "resynchronised" not in names


async def test_a_publisher_moves_to_the_other_node(nodes: dict[str, Sidecar]) -> None:
    first, second = nodes.values()
    settled: dict[int, Any] = {}

    def feed() -> None:
        urls = [first.publisher_url, second.publisher_url]
        with Publisher(urls, on_settled=lambda index, outcome: settled.update({index: outcome})) as publisher:
            for start in range(0, COUNT, 10):
                publisher.send_batch([[A, f"{number}"] for number in range(start, start + 10)])

    seen: list[Status] = []
    async with connect(second.client_url, on_status=seen.append) as client:
        stream = client.subscribe(A)
        await auntil(lambda: any(one.name == "subscribed" for one in seen))
        feeding = asyncio.create_task(asyncio.to_thread(feed))
        await auntil(lambda: len(settled) > COUNT // 4)
        first.kill()
        await feeding
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            messages = [await anext(stream) for _ in range(COUNT)]
    assert [settled[number].seq for number in range(COUNT)] == list(range(1, COUNT + 1))
    assert [message.seq for message in messages] == list(range(1, COUNT + 1))
    assert [message.content for message in messages] == [f"{number}" for number in range(COUNT)]


@pytest.mark.slow
async def test_a_pattern_goes_on_at_the_other_node(nodes: dict[str, Sidecar]) -> None:
    """What it found, and what came to be while it moved: each subject's messages once, in order."""
    first, second = nodes
    told: list[Status] = []
    async with (
        connect([(first, 100), (second, 0)], on_status=told.append, **SOON) as client,
        connect(second, publish_queue_messages=COUNT) as publisher,
    ):
        stream = client.subscribe("/p/*")
        await auntil(lambda: any(status.name == "subscribed" for status in told))
        futures = []
        for number in range(COUNT):
            # New subjects come to be all the while.
            futures.append(publisher.enqueue(f"/p/{number % (2 + number // 30)}", f"{number}"))
            if number == COUNT // 2:
                await auntil(lambda: futures[COUNT // 4].done())
                await asyncio.to_thread(nodes[first].kill)
        await asyncio.gather(*futures)
        received: dict[str, list[int]] = {}
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            for _ in range(COUNT):
                message = await anext(stream)
                received.setdefault(message.subject, []).append(int(message.content))
        wanted: dict[str, list[int]] = {}
        for number in range(COUNT):
            wanted.setdefault(f"/p/{number % (2 + number // 30)}", []).append(number)
        assert received == wanted
        assert client.url == second
        assert "resynchronised" not in [status.name for status in told]
