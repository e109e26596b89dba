"""The way of messages from node to node: Redis' publish and subscribe, which keeps nothing and tells who listens."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from redis.exceptions import ResponseError

from ..base import NodeListener
from .address import RedisAway
from .connection import AWAY, PrimaryAccess, RedisLink

QUEUE_BYTES_MAX = 8 << 20
"""Bytes that may wait to be sent; what passes them is lost, and told."""

SMALL_BYTES = 1 << 10
"""Messages up to this size find room in as much again: by these the ends of requests are told."""

BATCH_BYTES = 64 << 10
BATCH = 100
"""Number of messages that are sent before an answer is waited for."""

ANSWER_SECONDS = 2.0
RETRY_SECONDS = 0.25

BEAT_SECONDS = 1.0
"""Seconds between messages of a node to itself, which show that it hears."""

UNHEARD_MAX = 3
"""Number of such messages under way at which nothing comes through."""

_FAULTS = (*AWAY, ValueError, TypeError, IndexError)

log = logging.getLogger("fastpath.roster")


class _Sent(NamedTuple):
    """A message on its way."""

    node: str
    data: bytes
    lost: Callable[[bool], None] | None

    def fail(self, maybe: bool) -> None:
        if self.lost is not None:
            self.lost(maybe)


class RedisMessenger:
    """Sends to each node, and hears what is sent to this one.

    Both go over connections of their own to the primary, as long as both are well. When one breaks the other is ended
    as well, and the listener is told: what was under way may be lost in either direction.
    """

    def __init__(self, servers: PrimaryAccess, node: str, listener: NodeListener) -> None:
        self._servers = servers
        self._node = node
        self._listener = listener
        self._key = servers.key("nodes")
        self._queue: deque[_Sent] = deque()
        self._queue_bytes = 0
        self._wanted = asyncio.Event()
        self._unheard = 0
        self._up = self._closing = self._refused = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, and never give up."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, node: str, data: bytes, lost: Callable[[bool], None] | None = None) -> None:
        """Messenger: queue it."""
        sent = _Sent(node, data, lost)
        room = QUEUE_BYTES_MAX * (2 if len(data) <= SMALL_BYTES else 1) - self._queue_bytes
        if not self._up or (self._queue and len(data) > room):
            sent.fail(False)
            return
        self._queue.append(sent)
        self._queue_bytes += len(data)
        self._wanted.set()

    async def close(self) -> None:
        """Messenger: send what waits, as far as that goes at once."""
        self._closing = True
        self._wanted.set()
        task = self._task
        if task is None:
            return
        await asyncio.wait((task,), timeout=RETRY_SECONDS)
        await _end(task)

    async def _run(self) -> None:
        while not self._closing:
            try:
                await self._talk()
            except _FAULTS as error:
                self._note(error)
            if self._up:
                self._fail_all()
                self._listener.down()
            if not self._closing:
                await asyncio.sleep(RETRY_SECONDS)

    async def _talk(self) -> None:
        """Hear and send until one of both fails or this is closed; raises one of ``_FAULTS``."""
        address = await self._servers.primary()
        hearing, sending = self._servers.link(address), self._servers.link(address)
        tasks: list[asyncio.Task[None]] = []
        try:
            await hearing.call("SUBSCRIBE", self._key, self._channel(self._node), seconds=ANSWER_SECONDS)
            _, nodes = await sending.call("PUBSUB", "NUMSUB", self._key, seconds=ANSWER_SECONDS)
            self._unheard = 0
            self._up, self._refused = True, False
            self._listener.up(int(nodes))
            loop = asyncio.get_running_loop()
            tasks = [loop.create_task(work) for work in (self._hear(hearing), self._send(sending), self._beat(sending))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                await _end(task)
            await hearing.close()
            await sending.close()

    async def _hear(self, link: RedisLink) -> None:
        count = 0
        while True:
            kind, _, content = await link.read()
            if kind != b"message":
                continue  # of the subscriptions
            node, _, data = content.partition(b" ")
            if node != self._node.encode():
                self._listener.hear(node.decode(), data)
            elif not data:
                self._unheard = 0
            count += 1
            if count % 20 == 0:
                await asyncio.sleep(0)  # whoever else has something to do

    async def _send(self, link: RedisLink) -> None:
        while not (self._closing and not self._queue):
            await self._wanted.wait()
            self._wanted.clear()
            while self._queue:
                await self._send_some(link)

    async def _send_some(self, link: RedisLink) -> None:
        batch: list[_Sent] = []
        size = 0
        while self._queue and len(batch) < BATCH and (not batch or size + len(self._queue[0].data) <= BATCH_BYTES):
            batch.append(self._queue.popleft())
            size += len(batch[-1].data)
        self._queue_bytes -= size
        own = self._node.encode() + b" "
        commands = [("PUBLISH", self._channel(sent.node), own + sent.data) for sent in batch]
        try:
            answers = await link.ask(*commands, seconds=ANSWER_SECONDS)
        except BaseException:
            for sent in batch:
                sent.fail(True)
            raise
        for sent, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ResponseError):
                sent.fail(False)
            elif sent.node == self._node:
                self._unheard += 1
            elif not answer and sent.node:
                sent.fail(False)
                self._listener.missing(sent.node)
        for answer in answers:
            if isinstance(answer, ResponseError):
                raise answer

    async def _beat(self, link: RedisLink) -> None:
        """See to it that what is sent is heard, from where the primary is; raises RedisAway."""
        while True:
            self.send(self._node, b"")
            await asyncio.sleep(BEAT_SECONDS)
            if self._unheard >= UNHEARD_MAX:
                raise RedisAway("this node does not hear what it sends")
            if await self._servers.primary() != link.address:
                raise RedisAway("the primary is another one")

    def _note(self, error: Exception) -> None:
        if isinstance(error, ResponseError) and not self._refused:
            self._refused = True
            why = "nothing of it gets to another node, see docs/operate/cluster.md"
            log.warning("Redis lets this node not use the channels %s*: %s; %s", self._key, error, why)
        else:
            log.debug("no way to other nodes: %s", error)

    def _channel(self, node: str) -> str:
        """Return the channel where that node listens, without a name where all do."""
        return f"{self._key}:{node}" if node else self._key

    def _fail_all(self) -> None:
        """Fail all that waits: nothing of it is sent any more."""
        self._up = False
        queue, self._queue, self._queue_bytes = self._queue, deque(), 0
        for sent in queue:
            sent.fail(False)


async def _end(task: asyncio.Task[None]) -> None:
    while not task.done():  # a cancellation can get lost in the library
        task.cancel()
        await asyncio.wait((task,), timeout=0.2)
    if not task.cancelled():
        task.exception()  # of several that fail together one tells why
