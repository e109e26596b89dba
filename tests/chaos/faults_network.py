"""The faults between the node and those who talk to it."""

from __future__ import annotations

import asyncio

from tests.support.waiting import auntil

from .stage import Stage
from .table import Fault


async def cut(stage: Stage) -> None:
    """All connections through the proxy are reset; half of the times nothing gets through for a while."""
    proxies = [node.proxy for node in stage.nodes if node.proxy]
    stage.note_injection()
    if stage.random.random() < 0.5:
        for proxy in proxies:
            proxy.cut()
        return
    for proxy in proxies:
        proxy.shut()
    await asyncio.sleep(stage.random.uniform(0.1, 2))
    for proxy in proxies:
        proxy.open()


async def stall(stage: Stage) -> None:
    """Nothing gets through and nobody is told: for a moment, or until the clients give up."""
    proxies = [node.proxy for node in stage.nodes if node.proxy]
    stage.note_injection()
    for proxy in proxies:
        proxy.stall()
    await asyncio.sleep(stage.random.uniform(0.2, 4))
    for proxy in proxies:
        proxy.flow()


async def elsewhere(stage: Stage) -> None:
    """Every client is cut a few times within moments, and lands with another worker or node each time."""
    stage.note_injection()
    for _ in range(3):
        for node in stage.nodes:
            if node.proxy:
                node.proxy.cut()
        for client in stage.clients:
            if not client.trace.steady:
                client.cut()
        await asyncio.sleep(stage.random.uniform(0.05, 0.6))


async def kill_publisher(stage: Stage) -> None:
    """A publisher dies when it has sent and before it is answered; its heir sends the same again, elsewhere."""
    raw = [pusher for pusher in stage.pushers if pusher.kind == "raw"]
    pusher = stage.random.choice(raw)
    await pusher.kill()
    await pusher.start(die_after=stage.random.randint(5, 60))
    await asyncio.wait_for(pusher.ended(), 20)
    stage.note_injection()
    pusher.addresses.append(pusher.addresses.pop(0))
    await pusher.start()
    await auntil(lambda: not pusher.unanswered_before_last_start, 20)


FAULTS = (
    Fault(
        "client-cut",
        "client's network cut",
        "exactly the missed messages",
        cut,
        {"proxied": True, "steady": "reference", "journal": "interval"},
    ),
    Fault(
        "client-stalled",
        "client's network stalled for up to 4 s",
        "exactly the missed messages, or told",
        stall,
        {"proxied": True, "steady": "reference", "journal": "interval"},
    ),
    Fault(
        "client-elsewhere",
        "client cut again and again, each time with another worker",
        "exactly the missed messages, in order",
        elsewhere,
        {"proxied": True, "steady": "reference", "workers": 2, "journal": "interval"},
    ),
    Fault(
        "publisher-killed",
        "publisher killed after sending, before the acknowledgement; retries elsewhere",
        "stored once",
        kill_publisher,
        {"steady": "all", "journal": "interval"},
        well_seconds=30,
    ),
)
