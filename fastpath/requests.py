"""What the publisher port serves besides batches: begun when the engine has what it kept, ended before the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .edge.hub import Hub
from .engine.memory import MemoryEngine

if TYPE_CHECKING:
    from .engine.redis_engine import RedisEngine


async def begin_requests(hub: Hub, engine: MemoryEngine | RedisEngine) -> None:
    """Serve them from now on; no port for publishers is open yet. Redis may be away still."""
    del hub, engine


async def end_requests() -> None:
    """Begin nothing new and let go; what is under way goes on at the next start."""
