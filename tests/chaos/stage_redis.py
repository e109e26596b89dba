"""A stage on Redis: several nodes, a primary with replicas, Sentinels, and the log itself as the last witness."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import redis

from fastpath.engine.redis.entries import GROUPS, log_key
from tests.support.redis import Topology
from tests.support.redis_servers import RedisServer
from tests.support.waiting import auntil

from .boxes import BoxedTopology
from .model import Run
from .stage import SUBJECTS, Stage
from .watcher import now_ms

RATES = (("raw", 400), ("raw", 300), ("library", 300), ("socket", 100), ("mqtt", 50), ("mqtt-ws", 50))
PREFIX = "fastpath"
DOWN_AFTER_MS = 3000


class RedisStage(Stage):
    """``redis`` servers and as many Sentinels; the nodes find them through the Sentinels. ``boxed``: in namespaces."""

    def __init__(
        self,
        *,
        redis: int = 3,
        nodes: int = 2,
        rates: Sequence[tuple[str, int]] = RATES,
        steady: str = "all",
        boxed: bool = False,
        **settings: Any,
    ) -> None:
        self.topology: Topology
        if boxed:
            self.topology = boxes = BoxedTopology(redis=redis, nodes=nodes, down_after=DOWN_AFTER_MS)
        else:
            self.topology = Topology(redis=redis, sentinels=redis, down_after=DOWN_AFTER_MS)
        super().__init__(nodes=nodes, rates=rates, steady=steady, engine=self.topology.url, **settings)
        if boxed:
            for node, box in zip(self.nodes, boxes.node_boxes, strict=True):
                sidecar = node.sidecar
                sidecar.command = [*box.inside, *sidecar.command]
                sidecar.settings["listen"] = ",".join(
                    f"{kind}://{box.outer}:0" for kind in ("clients", "publishers", "mqtt")
                )

    @property
    def boxes(self) -> BoxedTopology:
        """The topology, where it is in namespaces."""
        assert isinstance(self.topology, BoxedTopology)
        return self.topology

    async def _open(self) -> None:
        await asyncio.to_thread(self.topology.__enter__)
        await super()._open()

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        await asyncio.to_thread(self.topology.__exit__)

    async def finish(self) -> Run:
        """Also reads the whole log, instead of what a node's cache still has."""
        run = await super().finish()
        run.final = await asyncio.to_thread(self._log)
        return run

    def logs(self) -> dict[str, str]:
        """Also those of Redis and the Sentinels."""
        found = super().logs()
        found |= {f"redis-{number}": server.log for number, server in enumerate(self.topology.servers)}
        return found | {f"sentinel-{number}": server.log for number, server in enumerate(self.topology.sentinels)}

    def _log(self) -> dict[str, list[tuple[int, str]]]:
        found: dict[str, list[tuple[int, str]]] = {subject: [] for subject in SUBJECTS}
        host, port = self.topology.primary.address
        if isinstance(self.topology, BoxedTopology):
            host = self.topology.home(self.topology.primary).outer
        with redis.Redis(host=host, port=port, protocol=2) as client:
            for group in range(GROUPS):
                for _, entry in client.xrange(log_key(PREFIX, group)):
                    subject, seq = entry[b"s"].decode(), int(entry[b"q"])
                    content = msgspec.msgpack.decode(entry[b"p"])[0]
                    if subject in found and seq:
                        found[subject].append((seq, content))
        return found

    async def acknowledged(self, seconds: float) -> None:
        """Wait until every publisher is answered again; AssertionError after ``seconds``."""
        since = now_ms()
        await auntil(lambda: all(pusher.last_ack_ms > since for pusher in self.pushers), seconds)

    async def primary(self) -> RedisServer:
        """The primary now."""
        return await asyncio.to_thread(lambda: self.topology.primary)

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What waits for servers, beside the loop."""
        return await asyncio.to_thread(work, *arguments)

    async def settled(self) -> None:
        """Wait until every server that runs follows the one primary.

        Where the network was parted the Sentinels keep their own pace: one that was cut off makes a replica of the
        primary that it does not know yet when it has seen it for four of its periods, long after it should have heard.
        """
        if isinstance(self.topology, BoxedTopology):
            await auntil(lambda: asyncio.to_thread(self.topology.settled), 90)
        else:
            await asyncio.to_thread(self.topology.wait_settled, 60)
