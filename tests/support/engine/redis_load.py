"""Publishers that publish through writers without a pause, and what they were told against what Redis holds."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import redis

from fastpath.core.broker.admission import Outcome
from fastpath.core.protocol.messages import Message
from fastpath.engine.redis.address import RedisConfig
from fastpath.engine.redis.entries import GROUPS, log_key, parse_place, read
from fastpath.engine.redis.primary import Primary
from fastpath.engine.redis.writing.writer import RedisWriter
from tests.support.redis import RedisServer

PREFIX = "fp"
LOG_MESSAGES = 10_000_000


class Node:
    """A writer as a node has it; what is stored counts as read at once."""

    def __init__(self, url: str, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        config = RedisConfig.parse(url)
        self.epoch = 0
        self.states: list[tuple[bool, str]] = []
        self.primary = Primary(config)
        self.writer = RedisWriter(
            loop,
            config,
            self.primary,
            **{"guaranteed": True, "snapshots": True, "prefix": PREFIX, "log_messages": LOG_MESSAGES} | options,
            epoch_known=lambda: self.epoch,
            stored=self._stored,
        )
        self.writer.on_state = lambda *state: self.states.append(state)

    async def publish(self, messages: Sequence[Message]) -> list[Outcome]:
        """Hand in, and wait for the outcomes."""
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        for message in messages:
            message.weigh()
        self.writer.submit(messages, future.set_result)
        return await future

    def _stored(self, epoch: int, ends: dict[int, int]) -> None:
        self.epoch = max(self.epoch, epoch)
        for group, n in ends.items():
            self.writer.seen(group, epoch, n)


@asynccontextmanager
async def node(url: str, **options: Any) -> AsyncIterator[Node]:
    """A node that has started; ended with the block."""
    one = Node(url, **options)
    try:
        await one.primary.start()
        await one.writer.start()
        yield one
    finally:
        await one.writer.close()
        await one.primary.close()


def entries(
    server: RedisServer, prefix: str = PREFIX
) -> list[list[tuple[tuple[int, int], Message, dict[bytes, bytes]]]]:
    """All logs: of each group the entries' places, messages and fields."""
    with redis.Redis("127.0.0.1", port=server.port, password=server.password or None, protocol=2) as client:
        logs = []
        for group in range(GROUPS):
            rows = []
            for place, fields in client.xrange(log_key(prefix, group)):
                flat = [part for pair in fields.items() for part in pair]
                (message,) = read([[place, flat]], parse_place(place)[0])
                rows.append((parse_place(place), message, fields))
            logs.append(rows)
        return logs


class Load:
    """Publishers, each with a name of its own, that send the next few when the last were answered.

    Every second publisher numbers its publications, and sends what was not stored for certain again under the same
    number, as a client library does; the others leave that to the writer.
    """

    def __init__(self, nodes: Sequence[Node], *, publishers: int = 8, messages: int = 10, pause: float = 0.02) -> None:
        self.acknowledged: dict[tuple[int, int], tuple[str, int, int]] = {}  # publisher, number → position
        self.times: list[float] = []
        self.refused: list[Outcome] = []
        self._stopped = False
        self._pause = pause
        self._messages = messages
        self._tasks = [asyncio.create_task(self._publish(n, nodes[n % len(nodes)])) for n in range(publishers)]

    async def stop(self, seconds: float = 20) -> None:
        """Every publisher ends when it has its answers."""
        self._stopped = True
        await asyncio.wait_for(asyncio.gather(*self._tasks), seconds)

    def longest_pause(self) -> float:
        """Between two acknowledgements, in seconds."""
        times = sorted(self.times)
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    async def _publish(self, publisher: int, node: Node) -> None:
        choice = random.Random(publisher)
        number = 0
        numbered = publisher // 2 % 2 == 0
        pending: list[Message] = []
        while not self._stopped or pending:
            while len(pending) < self._messages and not self._stopped:
                number += 1
                pending.append(Message(f"/load/{choice.randrange(200)}", f"{publisher}:{number}"))
                if numbered:
                    pending[-1].publisher, pending[-1].publication = f"load-{publisher}", number
            outcomes = await node.publish(pending)
            again = []
            for message, outcome in zip(pending, outcomes, strict=True):
                if isinstance(outcome, tuple) and outcome[0] == "unavailable":
                    if numbered:
                        again.append(message)
                elif isinstance(outcome, tuple) and isinstance(outcome[0], str):
                    self.refused.append(outcome)
                else:
                    key = publisher, int(str(message.content).partition(":")[2])
                    self.acknowledged[key] = message.subject, message.epoch, message.seq
                    self.times.append(asyncio.get_running_loop().time())
            pending = again
            await asyncio.sleep(self._pause)

    def check(self, server: RedisServer) -> None:
        """Everything acknowledged is in the log of ``server``, under the position that was told, or in a later epoch if
        the server had lost it and it was stored again; nothing is there twice; every subject's numbers follow on."""
        found: dict[tuple[int, int], tuple[str, int, int]] = {}
        positions: dict[str, list[tuple[int, int]]] = defaultdict(list)
        twice = []
        for log in entries(server):
            for _, message, _ in log:
                publisher, _, number = str(message.content).partition(":")
                key = int(publisher), int(number)
                if key in found:
                    twice.append(key)
                found[key] = message.subject, message.epoch, message.seq
                positions[message.subject].append((message.epoch, message.seq))
        lost = [key for key in self.acknowledged if key not in found]
        moved = [
            key
            for key, told in self.acknowledged.items()
            if key in found and found[key] != told and found[key][1] <= told[1]
        ]
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged are lost: {lost[:5]}"
        assert not twice, f"{len(twice)} are stored twice: {twice[:5]}"
        assert not moved, f"{len(moved)} stand elsewhere than was told: {moved[:5]}"
        for subject, rows in positions.items():
            assert rows == sorted(rows), subject
            assert [seq for _, seq in rows] == list(range(1, len(rows) + 1)), subject
        assert not self.refused, self.refused[:5]
