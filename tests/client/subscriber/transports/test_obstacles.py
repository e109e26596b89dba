"""The Python clients behind what is in the way of WebSockets and streams: they step down, and lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from fastpath.client import TooLarge, blocking
from fastpath.client.message import Status
from fastpath.client.subscriber.client import Client, connect
from tests.support.obstacles import Obstacles
from tests.support.reconnecting import SOON
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil

QUICKLY: dict[str, Any] = {**SOON, "step_down_seconds": 1.5}
"""Who stands still for a moment is in nobody's way."""


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar() as running:
        yield running


@pytest.fixture(scope="module")
def workers() -> Iterator[Sidecar]:
    with Sidecar(workers=2) as running:
        yield running


def behind(proxy: Obstacles, **options: Any) -> Client:
    return connect(f"ws://{proxy.address}/ws", **{**QUICKLY, **options})


async def converse(client: Client, subject: str) -> None:
    """What is published is read, in order, each once."""
    stream = client.subscribe(subject)
    sent = [str(number) for number in range(20)]
    await asyncio.gather(*(client.publish(subject, content) for content in sent))
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [(await anext(stream)).content for _ in sent] == sent
    await stream.aclose()


OBSTACLES = {
    "none": ({}, "websocket"),
    "refuses 400": ({"upgrades": 400}, "stream"),
    "refuses 403": ({"upgrades": 403}, "stream"),
    "refuses 502": ({"upgrades": 502}, "stream"),
    "swallows frames": ({"upgrades": "swallow"}, "stream"),
    "never answers": ({"upgrades": "ignore"}, "stream"),
    "refuses and buffers": ({"upgrades": 403, "buffers": True}, "poll"),
    "never answers and buffers": ({"upgrades": "ignore", "buffers": True}, "poll"),
}


OFTEN = ("none", "refuses 403", "swallows frames", "refuses and buffers")
"""Those that are tried each time; the others are slow."""


@pytest.mark.parametrize(
    ("obstacles", "transport"),
    [pytest.param(*case, id=name, marks=() if name in OFTEN else pytest.mark.slow) for name, case in OBSTACLES.items()],
)
async def test_it_steps_down_to_what_works(sidecar: Sidecar, obstacles: Any, transport: str) -> None:
    told: list[Status] = []
    with Obstacles(sidecar.client_url, **obstacles) as proxy:
        async with behind(proxy, on_status=told.append) as client:
            assert client.transport == transport
            await converse(client, f"/obstacles/{proxy.address.replace(':', '-').replace('.', '-')}")
    assert [(status.name, status.transport) for status in told[:1]] == [("connected", transport)]


@pytest.mark.slow
async def test_what_cuts_long_answers_is_got_round_without_loss(sidecar: Sidecar) -> None:
    with Obstacles(sidecar.client_url, cut_bytes=20_000) as proxy:
        async with connect(sidecar.client_url) as publisher, behind(proxy) as client:
            stream = client.subscribe("/obstacles/cut", history=1)
            sent: list[str] = []

            async def publish() -> bool:
                sent.append(f"{len(sent)}".zfill(200))
                await publisher.publish("/obstacles/cut", sent[-1])
                return client.transport == "poll" and client.connected

            await auntil(publish, 20)
            await converse(client, "/obstacles/after")
            async with asyncio.timeout(PATIENCE_SECONDS):
                got = [(await anext(stream)).content]
                while got[-1] != sent[-1]:
                    got.append((await anext(stream)).content)
            assert got == sent[sent.index(got[0]) :]


@pytest.mark.slow
async def test_what_ends_idle_connections_is_got_round(sidecar: Sidecar) -> None:
    with Obstacles(sidecar.client_url, idle_seconds=0.8) as proxy:
        async with behind(proxy) as client:
            await auntil(lambda: client.transport == "poll" and client.connected, 20)
            polls = proxy.requests.count("GET /session/poll")
            await auntil(lambda: proxy.requests.count("GET /session/poll") > polls + 3)
            await converse(client, "/obstacles/idle")
            assert client.connected and client.transport == "poll"


async def test_what_worked_is_remembered_and_left_when_better_works_again(sidecar: Sidecar) -> None:
    with Obstacles(sidecar.client_url, upgrades=403) as proxy:
        async with behind(proxy) as first:
            assert first.transport == "stream"
        before = proxy.requests.count("GET /ws")
        async with behind(proxy) as second:
            assert second.transport == "stream"
        assert proxy.requests.count("GET /ws") == before
    told: list[Status] = []
    with Obstacles(sidecar.client_url, upgrades=403, buffers=True) as proxy:
        async with behind(proxy, step_up_seconds=0.5, on_status=told.append) as client:
            assert client.transport == "poll"
            stream = client.subscribe("/obstacles/up")
            await auntil(lambda: proxy.requests.count("GET /ws") >= 2)  # tried in vain, and the connection stands
            assert client.connected and client.transport == "poll"
            proxy.upgrades = "pass"
            await auntil(lambda: client.transport == "websocket" and client.connected)
            await client.publish("/obstacles/up", "x")
            assert (await anext(stream)).content == "x"
    assert [status.name for status in told if status.name in ("connected", "disconnected", "down")] == [
        "connected", "disconnected", "connected"]  # fmt: skip


@pytest.mark.parametrize("transport", ["stream", "poll"])
async def test_an_answer_that_is_lost_on_its_way_loses_nothing(sidecar: Sidecar, transport: str) -> None:
    told: list[Status] = []
    with Obstacles(sidecar.client_url, loses_every=3) as proxy:
        async with behind(proxy, transports=[transport], on_status=told.append) as client:
            for number in range(5):
                await converse(client, f"/obstacles/lossy/{transport}/{number}")
    assert [status.name for status in told if status.name in ("connected", "disconnected")] == ["connected"]


async def test_a_frame_that_is_too_large_fails_alone(workers: Sidecar) -> None:
    options: Any = {**SOON, "publish_queue_bytes": 8 << 20}
    async with connect(workers.client_url, transports=["stream"], **options) as client:
        with pytest.raises(TooLarge):
            await client.publish("/obstacles/large", "x" * 3_000_000)
        await converse(client, "/obstacles/large")


async def test_a_server_that_is_away_blames_no_transport(sidecar: Sidecar) -> None:
    with Obstacles(sidecar.client_url) as proxy:
        async with behind(proxy) as client:
            proxy.shut()
            await auntil(lambda: not client.connected)
            proxy.open()
            await auntil(lambda: client.connected)
            assert client.transport == "websocket"


@pytest.mark.parametrize("transport", ["stream", "poll"])
async def test_one_alone_is_pinned_and_any_worker_takes_what_is_posted(workers: Sidecar, transport: str) -> None:
    for number in range(3):
        async with connect(workers.client_url, transports=[transport]) as client:
            assert client.transport == transport
            await converse(client, f"/workers/{transport}/{number}")


def test_the_blocking_client_steps_down_as_well(sidecar: Sidecar) -> None:
    with (
        Obstacles(sidecar.client_url, upgrades=502) as proxy,
        blocking.connect(f"ws://{proxy.address}/ws", **QUICKLY) as client,
    ):
        assert client.transport == "stream"
        stream = client.subscribe("/obstacles/blocking")
        client.publish("/obstacles/blocking", "x")
        assert next(stream).content == "x"
