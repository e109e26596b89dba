"""The fault of a client that is away for long, and misses far more than may wait for it."""

from __future__ import annotations

import asyncio

from .stage import Stage
from .table import Fault

CACHE_SECONDS = 120
"""Longer than anybody is away."""

OUTBOX_BYTES = 256 << 10
"""What a client misses of one subject is more than this, as the cache counts it."""


async def away(stage: Stage) -> None:
    """Nobody gets through the proxy for so long that most of what was published came meanwhile."""
    proxies = [node.proxy for node in stage.nodes if node.proxy]
    stage.note_injection()
    for proxy in proxies:
        proxy.shut()
    await asyncio.sleep(stage.random.uniform(15, 25))
    for proxy in proxies:
        proxy.open()


FAULTS = (
    Fault(
        "client-away",
        "client away for 15 to 25 s, with a small outgoing queue",
        "exactly the missed messages, however many",
        away,
        {
            "proxied": True,
            "steady": "reference",
            "cache_seconds": CACHE_SECONDS,
            "outbox_bytes_max": OUTBOX_BYTES,
        },
        well_seconds=40,
    ),
)
