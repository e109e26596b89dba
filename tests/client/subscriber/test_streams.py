"""The queues between the client's tasks and the program's, and the feeds of statuses."""

from __future__ import annotations

import asyncio
import gc
import weakref

from fastpath.client.message import Status
from fastpath.client.subscriber.answers import Statuses
from fastpath.client.subscriber.streams import Feed
from tests.support.waiting import PATIENCE_SECONDS


async def test_who_waits_for_room_goes_on_when_the_feed_ends() -> None:
    """A stream whose subject another took over is read no more: the client must not wait for that."""
    feed: Feed[int] = Feed()
    feed.push(1)
    waiting = asyncio.create_task(feed.wait_room(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    feed.end()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await waiting
    assert await feed.take() == [1]


async def test_a_feed_that_nobody_has_any_more_is_forgotten() -> None:
    """A program that asks for a feed whenever it waits for a status gathers none; those that are read go on."""
    statuses = Statuses(None)
    kept = statuses.feed()
    gone = weakref.ref(statuses.feed())
    gc.collect()
    assert gone() is None
    statuses.tell(Status(name="connected"))
    assert [status.name for status in await kept.take()] == ["connected"]
    statuses.end()
    assert [status async for status in kept] == []
