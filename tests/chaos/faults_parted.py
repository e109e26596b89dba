"""The faults of a network that is parted: in namespaces, so that packets are dropped and nobody is told."""

from __future__ import annotations

import asyncio

from .machine import no_namespaces
from .model import Noticed, Verdict
from .stage import Node, Stage
from .stage_redis import DOWN_AFTER_MS, RedisStage
from .table import Fault
from .watcher import now_ms

PARTED_SECONDS = (6, 9)
"""Longer than Sentinels take for a new primary."""

ACKNOWLEDGED_MS = 2000
"""What was safe before the cut may be acknowledged for so long: the node waits a while to read it itself."""


class Parted:
    """One node is on the other side, alone or with the primary; remembers when, for the judge."""

    def __init__(self, with_primary: bool) -> None:
        self.with_primary = with_primary
        self.spans: list[tuple[int, int, Node]] = []

    async def inject(self, stage: Stage) -> None:
        """Cut, long enough for a new primary, and heal."""
        assert isinstance(stage, RedisStage)
        number = stage.random.randrange(len(stage.nodes))
        node, boxes = stage.nodes[number], stage.boxes
        old = await stage.primary()
        side = [boxes.node_boxes[number], *([boxes.home(old)] if self.with_primary else [])]
        begin = now_ms()
        stage.note_injection()
        await stage.in_thread(boxes.net.part, side)
        try:
            if self.with_primary:
                await stage.in_thread(boxes.wait_new_primary, old)
            await asyncio.sleep(stage.random.uniform(*PARTED_SECONDS))
        finally:
            self.spans.append((begin, now_ms(), node))
            await stage.in_thread(boxes.net.heal)
        await stage.acknowledged(40)
        await stage.settled()

    def judge(self, stage: Stage, verdict: Verdict) -> list[str]:
        """Nothing was acknowledged there, and who was there was told."""
        del verdict
        failures = []
        spans, self.spans = self.spans, []
        for begin, end, node in spans:
            acks = [at for one in stage.pushers for at, by in one.acks_from if by in node.addresses]
            wrong = [at - begin for at in acks if begin + ACKNOWLEDGED_MS < at < end]
            if wrong:
                failures.append(f"acknowledged by the node that was cut off, {wrong[:5]} ms after the cut")
            failures += self._told(stage, begin, end, node)
        return failures

    @staticmethod
    def _told(stage: Stage, begin: int, end: int, node: Node) -> list[str]:
        failures = []
        for client in stage.clients:
            events = client.trace.events
            here = [event.where for event in events if hasattr(event, "where") and event.at < begin][-1:]
            if not here or node.clients not in here[0]:
                continue
            stale = [e for e in events if isinstance(e, Noticed) and "stale" in e.what and begin < e.at < end]
            if not stale:
                failures.append(f"{client.trace.name} was not told that its node is stale")
        return failures


_NODE, _MINORITY = Parted(with_primary=False), Parted(with_primary=True)

FAULTS = (
    Fault(
        "node-cut-off",
        "node cut off from Redis",
        "no acknowledgement there; told; healed without loss or doubles",
        _NODE.inject,
        {"boxed": True},
        RedisStage,
        well_seconds=60,
        judge=_NODE.judge,
        obstacle=no_namespaces,
    ),
    Fault(
        "minority",
        "the old primary cut off with a node",
        f"no acknowledgement from the minority; told; healed without doubles; down-after {DOWN_AFTER_MS / 1000:g} s",
        _MINORITY.inject,
        {"boxed": True},
        RedisStage,
        cap=100,
        well_seconds=60,
        judge=_MINORITY.judge,
        obstacle=no_namespaces,
    ),
)
