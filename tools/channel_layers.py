"""Measures channel layers beside each other: `python -m tools.channel_layers`.

For each layer and number of consumers, all in one process: how long a group_send takes to reach each consumer while
some are sent in a second, the CPU time of that process and of the server that it takes, and how many are sent and
received in a second one after the other. `--layers` narrows; channels_redis is measured where it is installed
(`pip install channels_redis`) and a redis-server is there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import InMemoryChannelLayer
from django.conf import settings

from fastpath.bench.machine.description import machine
from fastpath.bench.machine.procfs import cpu_ns
from fastpath.bench.servers import redis_servers
from fastpath.bench.servers.fastpath_server import sidecar

CONSUMERS = (1, 10, 100)
PACED_SECONDS = 10.0
PACED_PER_SECOND = 20
"""Group messages in a second; every layer that is measured keeps up with that."""
CLOSED_SECONDS = 5.0
SYNC_SECONDS = 3.0
TEXT = "x" * 100

Figures = dict[str, float]


@dataclass
class Subject:
    """A layer that is measured, and the processes that serve it."""

    make: Callable[[], Any]
    pids: list[int]


@contextlib.contextmanager
def memory() -> Iterator[Subject]:
    """Yield Channels' own layer, for one process."""
    yield Subject(InMemoryChannelLayer, [])


@contextlib.contextmanager
def fastpath() -> Iterator[Subject]:
    """Yield the layer of a sidecar of one worker, as it comes."""
    from realtime.layers import FastpathChannelLayer  # noqa: PLC0415 - after settings.configure()

    with sidecar(None) as server:
        yield Subject(lambda: FastpathChannelLayer(control=server.control), server.pids)


def _redis(module: str, name: str) -> Callable[[], contextlib.AbstractContextManager[Subject]]:
    @contextlib.contextmanager
    def opened() -> Iterator[Subject]:
        made = getattr(__import__(module, fromlist=[name]), name)
        with redis_servers.redis_servers() as servers:
            servers.call("CONFIG", "SET", "appendonly", "no")  # nobody keeps a channel layer on a disk
            hosts = [f"redis://127.0.0.1:{servers.primary}"]
            yield Subject(lambda: made(hosts=hosts), [pid for pids in servers.pids.values() for pid in pids])

    return opened


LAYERS: dict[str, Callable[[], contextlib.AbstractContextManager[Subject]]] = {
    "InMemory": memory,
    "Fastpath": fastpath,
    "channels_redis": _redis("channels_redis.core", "RedisChannelLayer"),
    "channels_redis pubsub": _redis("channels_redis.pubsub", "RedisPubSubChannelLayer"),
}


class Room:
    """A group with consumers, which note how long each message took."""

    def __init__(self, layer: Any, consumers: int) -> None:
        self.times: list[float] = []
        self._layer = layer
        self._consumers = consumers
        self._left = 0
        self._done = asyncio.Event()

    async def fill(self) -> list[asyncio.Task[None]]:
        """Let the consumers in; they run until they are cancelled."""
        channels = [await self._layer.new_channel() for _ in range(self._consumers)]
        for channel in channels:
            await self._layer.group_add("room", channel)
        return [asyncio.create_task(self._consume(channel)) for channel in channels]

    async def send(self, messages: int, per_second: float = 0) -> None:
        """Send so many messages, evenly or one after the other, and wait until each consumer has all of them."""
        self._left, began = messages * self._consumers, time.perf_counter()
        for number in range(messages):
            if per_second:
                await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            await self._layer.group_send("room", {"type": "chat.message", "text": TEXT, "sent": time.perf_counter()})
        await asyncio.wait_for(self._done.wait(), 30)
        self._done.clear()

    async def _consume(self, channel: str) -> None:
        while True:
            message = await self._layer.receive(channel)
            self.times.append(time.perf_counter() - message["sent"])
            self._left -= 1
            if not self._left:
                self._done.set()


async def measure(subject: Subject, consumers: int) -> Figures:
    """Return the figures of one layer with so many consumers in a group."""
    layer = subject.make()
    await layer.flush()
    room = Room(layer, consumers)
    tasks = await room.fill()
    for _ in range(20):
        await room.send(1)
    room.times.clear()
    pids, sent = [os.getpid(), *subject.pids], int(PACED_SECONDS * PACED_PER_SECOND)
    before = cpu_ns(pids)
    await room.send(sent, PACED_PER_SECOND)
    cpu, times = cpu_ns(pids) - before, sorted(room.times)
    began, count = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < CLOSED_SECONDS:
        await room.send(1)
        count += 1
    await layer.flush()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for end in "close_pools", "close":
        if hasattr(layer, end):
            await getattr(layer, end)()
    return {
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[int(len(times) * 0.99)],
        "cpu_ms": cpu / 1e6 / sent,
        "per_s": count / took,
    }


def measure_sync(subject: Subject) -> float:
    """Return how many group_sends a second a thread without a loop does, as a view under WSGI or a task of Celery."""
    send = async_to_sync(subject.make().group_send)
    began, count = time.perf_counter(), 0
    while (took := time.perf_counter() - began) < SYNC_SECONDS:
        send("nobody", {"type": "chat.message", "text": TEXT})
        count += 1
    return count / took


def main() -> int:
    """Measure, and print a table for the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--consumers", nargs="+", type=int, default=CONSUMERS)
    given = parser.parse_args()
    settings.configure(REALTIME={})
    about = machine()
    print(f"{about['cpu']}, {os.cpu_count()} cores, Python {sys.version.split()[0]}", file=sys.stderr)
    print("| layer | consumers | p50 | p99 | CPU a group_send | group_sends one after the other |")
    print("|---|---|---|---|---|---|")
    synchronous = []
    for name in given.layers:
        try:
            with LAYERS[name]() as subject:
                for consumers in given.consumers:
                    one = asyncio.run(measure(subject, consumers))
                    print(
                        f"| {name} | {consumers} | {one['p50_ms']:.2f} ms | {one['p99_ms']:.2f} ms "
                        f"| {one['cpu_ms']:.2f} ms | {one['per_s']:,.0f}/s |",
                        flush=True,
                    )
                synchronous.append(f"{name} {measure_sync(subject):,.0f}/s")
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    print(f"\nasync_to_sync(layer.group_send) in a thread without a loop: {', '.join(synchronous)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
