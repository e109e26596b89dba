"""The channel layer where several nodes share a Redis: groups are of one sidecar, which all hosts have to name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from realtime import checks
from realtime.layers import FastpathChannelLayer
from tests.support.redis_servers import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.redis

BACKEND = "realtime.layers.FastpathChannelLayer"


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two hosts' sidecars."""
    with RedisServer() as redis, Sidecar(engine=redis.url) as one, Sidecar(engine=redis.url) as other:
        yield one, other


async def test_a_group_reaches_consumers_of_all_hosts_that_name_one_sidecar(nodes: tuple[Sidecar, Sidecar]) -> None:
    """And of no host that names another, which is why the check warns."""
    one, other = nodes
    sender, near, far, apart = (
        FastpathChannelLayer(control=control) for control in (one.control, one.control, one.control, other.control)
    )
    channels = {layer: await layer.new_channel() for layer in (near, far, apart)}
    for layer, channel in channels.items():
        await layer.group_add("news", channel)
    await sender.group_send("news", {"type": "news", "text": "1"})
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [await layer.receive(channels[layer]) for layer in (near, far)] == [{"type": "news", "text": "1"}] * 2
    # What is sent there now is the first that comes.
    await apart.group_send("news", {"type": "news", "text": "2"})
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await apart.receive(channels[apart]) == {"type": "news", "text": "2"}


def test_the_check_says_so(settings: Any, nodes: tuple[Sidecar, Sidecar], sidecar: Sidecar) -> None:
    def warned(controls: Any, **config: Any) -> list[str]:
        settings.REALTIME = settings.REALTIME | {"CONTROL": controls}
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": BACKEND, "CONFIG": config}}
        return [found.msg for found in checks.sidecar_messages() if found.id == "realtime.W011"]

    one, other = nodes
    [told] = warned(one.control)
    assert (one.control in told, '"default"' in told) == (True, True)
    assert len(warned([one.control, other.control])) == 1
    assert warned([one.control, other.control], control=one.control) == []
    assert warned(sidecar.control) == []  # it shares nothing
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    assert [found for found in checks.sidecar_messages() if found.id == "realtime.W011"] == []
