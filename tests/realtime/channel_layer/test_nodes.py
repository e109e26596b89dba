"""The channel layer where hosts have a sidecar each, and these share a Redis: processes of Django at both."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from channels.exceptions import ChannelFull

from realtime import SidecarUnavailable, checks
from realtime.layers import FastpathChannelLayer
from tests.support.channel_layer.sites import Site, figure
from tests.support.promises import kept
from tests.support.redis_servers import RedisServer
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, auntil

pytestmark = pytest.mark.redis

BACKEND = "realtime.layers.FastpathChannelLayer"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """One that a test may kill."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def nodes(redis: RedisServer) -> Iterator[tuple[Sidecar, Sidecar]]:
    """Two hosts' sidecars, which know each other."""
    with Sidecar(engine=redis.url) as one, Sidecar(engine=redis.url) as other:
        Site(one, other).meet()
        yield one, other


def layers(nodes: tuple[Sidecar, Sidecar], **config: Any) -> list[FastpathChannelLayer]:
    """A process' layer at each."""
    return [FastpathChannelLayer(control=node.control, **config) for node in nodes]


async def received(layer: FastpathChannelLayer, channel: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await layer.receive(channel) for _ in range(count)]


PROGRAM = """
import asyncio, json, sys
from django.conf import settings

settings.configure(CHANNEL_LAYERS={"default": {"BACKEND": "realtime.layers.FastpathChannelLayer"}},
                   REALTIME={"CONTROL": [sys.argv[1]]})
from channels.layers import get_channel_layer

async def main():
    layer = get_channel_layer()
    own = await layer.new_channel()
    await layer.group_add("news", own)
    print(json.dumps({"channel": own}), flush=True)
    while True:
        told = await layer.receive(own)
        print(json.dumps(told), flush=True)
        if told["type"] == "answer":
            await layer.send(told["to"], {"type": "answered", "text": told["text"]})
        if told["type"] == "end":
            return

asyncio.run(main())
"""


async def test_processes_of_two_hosts_reach_each_other_by_groups_and_by_channels(
    nodes: tuple[Sidecar, Sidecar], tmp_path: Path
) -> None:
    (tmp_path / "process.py").write_text(PROGRAM)
    programs = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(tmp_path / "process.py"),
            node.control,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": "."},
        )
        for node in nodes
    ]
    try:

        async def line(program: asyncio.subprocess.Process) -> Any:
            assert program.stdout is not None
            return json.loads(await asyncio.wait_for(program.stdout.readline(), 2 * PATIENCE_SECONDS))

        channels = [(await line(program))["channel"] for program in programs]
        here, there = layers(nodes)
        own = await here.new_channel()
        for number in range(3):
            await there.group_send("news", {"type": "news", "n": number})
        for program in programs:
            got = [await line(program) for _ in range(3)]
            kept(got == [{"type": "news", "n": number} for number in range(3)], got)
        for channel in channels:  # from either node to the process of either, and back
            await there.send(channel, {"type": "answer", "to": own, "text": channel})
        got = [told["text"] for told in await received(here, own, 2)]
        kept(sorted(got) == sorted(channels), got)
        await here.group_send("news", {"type": "end"})
        for program in programs:
            assert await asyncio.wait_for(program.wait(), 2 * PATIENCE_SECONDS) == 0
    finally:
        for program in programs:
            with suppress(ProcessLookupError):
                program.kill()
            await program.wait()


async def test_a_full_channel_of_another_host_raises_channel_full_and_is_counted(
    nodes: tuple[Sidecar, Sidecar],
) -> None:
    here, there = layers(nodes, capacity=2)
    channel = await there.new_channel()
    await there.group_add("nobody", channel)  # which connects its process
    for number in range(2):
        await here.send(channel, {"type": "n", "n": number})
    with pytest.raises(ChannelFull, match="holds 2 messages"):
        await here.send(channel, {"type": "over"})
    assert sum(figure(node, "channel_messages_full") for node in nodes) == 1
    assert [told["n"] for told in await received(there, channel, 2)] == [0, 1]


async def test_nothing_of_it_is_kept_in_redis(nodes: tuple[Sidecar, Sidecar], redis: RedisServer) -> None:
    """In no key of any kind, the logs among them."""
    here, there = layers(nodes)
    channel = await there.new_channel()
    await there.group_add("room", channel)
    await here.group_send("room", {"type": "secret-of-the-room"})
    await here.send(channel, {"type": "secret-of-the-room"})
    await here.send("jobs", {"type": "secret-of-the-room"})
    assert len(await received(there, channel, 2)) == 2
    with redis_py.Redis(port=redis.port) as client:
        read: dict[bytes, Any] = {
            b"stream": client.xrange,
            b"hash": client.hgetall,
            b"string": client.get,
            b"zset": lambda key: client.zrange(key, 0, -1),
            b"set": client.smembers,
            b"list": lambda key: client.lrange(key, 0, -1),
        }
        keys: list[bytes] = client.keys("*")  # type: ignore[assignment]
        assert keys
        for key in keys:
            kind: bytes = client.type(key)  # type: ignore[assignment]
            kept(b"secret-of-the-room" not in repr(read[kind](key)).encode(), f"{key!r} keeps it")


async def test_a_host_that_dies_takes_its_members_along_and_workers_go_on_elsewhere(
    redis: RedisServer, nodes: tuple[Sidecar, Sidecar]
) -> None:
    here, there = layers(nodes)
    mine, gone = await here.new_channel(), await there.new_channel()
    await here.group_add("room", mine)
    await there.group_add("room", gone)
    for layer in here, there:
        await layer.send("jobs", {"type": "job"})
    assert await received(here, "jobs", 2) == [{"type": "job"}] * 2
    nodes[1].kill()
    await auntil(lambda: figure(nodes[0], "channel_nodes") == 0)
    await here.group_send("room", {"type": "after"})
    assert await received(here, mine, 1) == [{"type": "after"}]
    await here.send("jobs", {"type": "again"})
    assert await received(here, "jobs", 1) == [{"type": "again"}]
    await asyncio.to_thread(nodes[1].start)  # where its processes say again what they had
    Site(*nodes).meet()
    receiver = asyncio.create_task(there.receive(gone))
    await auntil(lambda: figure(nodes[1], "channel_memberships") == 1)
    await here.group_send("room", {"type": "back"})
    assert await asyncio.wait_for(receiver, PATIENCE_SECONDS) == {"type": "back"}


async def test_while_redis_is_away_each_host_goes_on_and_the_others_are_told_afterwards(
    redis: RedisServer, nodes: tuple[Sidecar, Sidecar], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = layers(nodes)
    mine, theirs = await here.new_channel(), await there.new_channel()
    await here.group_add("room", mine)
    await there.group_add("room", theirs)
    redis.kill()
    for node in nodes:
        await auntil(lambda node=node: figure(node, "channel_nodes") == 0)
    for number in range(3):
        await here.group_send("room", {"type": "n", "n": number})
    await here.send(theirs, {"type": "direct"})
    assert [told["n"] for told in await received(here, mine, 3)] == [0, 1, 2]
    assert figure(nodes[0], "channel_messages_held") == 3
    await asyncio.to_thread(redis.start)
    got = await received(there, theirs, 4)
    kept([told["n"] for told in got if told["type"] == "n"] == [0, 1, 2], got)
    kept({"type": "direct"} in got, got)
    assert any("way between the nodes was interrupted" in record.getMessage() for record in caplog.records)


async def test_a_host_that_hangs_holds_up_no_group_and_a_send_to_it_is_unavailable(
    nodes: tuple[Sidecar, Sidecar],
) -> None:
    here, there = layers(nodes)
    mine, theirs = await here.new_channel(), await there.new_channel()
    await here.group_add("room", mine)
    await there.group_add("room", theirs)
    while not figure(nodes[0], "channel_messages_to_nodes"):  # until it is known here where its process is
        await here.send(theirs, {"type": "known"})
        await received(there, theirs, 1)
    os.kill(nodes[1].pid, signal.SIGSTOP)
    try:
        await here.group_send("room", {"type": "a"})
        assert await received(here, mine, 1) == [{"type": "a"}]
        with pytest.raises(SidecarUnavailable, match="has not answered: it may have the message"):
            await here.send(theirs, {"type": "b"})
    finally:
        os.kill(nodes[1].pid, signal.SIGCONT)


def test_the_check_has_nothing_to_say_of_it(settings: Any, nodes: tuple[Sidecar, Sidecar]) -> None:
    settings.REALTIME = settings.REALTIME | {"CONTROL": [node.control for node in nodes]}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": BACKEND}}
    assert [found for found in checks.sidecar_messages() if "channel layer" in found.msg] == []
