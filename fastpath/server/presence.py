"""Presence and interactive publishing of one process: what it takes part in, and how that begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.broker.ports import Engine
from ..edge.runtime.hub import Hub
from ..edge.workers.presence import Attending, node_name
from ..edge.workers.presence_leader import View
from ..engine.follower import FollowerEngine
from ..engine.memory import MemoryEngine

if TYPE_CHECKING:
    from ..engine.redis.presence import RedisRoster


class Part:
    """A process' part; ``links`` is the path that the workers of a node share, empty for one that is alone."""

    def __init__(self, hub: Hub, engine: Engine, links: str = "", worker: int = 0, survivors: int = 0) -> None:
        node = node_name(links) if links else hub.broker.server
        self._channel: RedisRoster | None = None
        view = None if worker else View(hub, node, learns=survivors > 0)
        if view is not None and not isinstance(engine, MemoryEngine | FollowerEngine):
            from ..engine.redis.engine import RedisEngine  # noqa: PLC0415 - a tenth of a second, 5 MB
            from ..engine.redis.presence import RedisRoster  # noqa: PLC0415

            assert isinstance(engine, RedisEngine)
            self._channel = RedisRoster(engine, node, view.hear)
            self._channel.start()
            view.join(self._channel)
        self._attending = Attending(hub, node, worker, view)
        self._attending.start()

    async def end(self) -> None:
        """The process ends: say so, and leave Redis."""
        self._attending.stop()
        if self._channel is not None:
            await self._channel.close()
