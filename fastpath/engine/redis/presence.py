"""The way of the roster between nodes: one short stream in Redis, which keeps nothing that could not be asked again."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec

from .connection import AWAY, PrimaryAccess, RedisLink

ENTRIES_MAX = 4096
"""Entries that the stream keeps, about: who has read less than that is asked for, and asks, again."""

ENTRY_BYTES = 16 << 10
"""Packets are put together into entries of about this size: the stream takes at most 64 MB, and usually a few KB."""

QUEUE_BYTES_MAX = 4 << 20
"""Bytes that may wait to be written; what passes them is dropped, and asked for again."""

BLOCK_MS = 500
"""Milliseconds that a read waits for something new."""

ANSWER_SECONDS = 2.0
RETRY_SECONDS = 0.25

AWAY_SECONDS = 2.0
"""Seconds without an answer after which what is known of other nodes counts as old."""

_FAULTS = (*AWAY, ValueError, TypeError, IndexError)

log = logging.getLogger("fastpath.roster")


class RedisRoster:
    """Hands packets of this node to all others, and theirs to ``hear``; in the order of each node, some may be lost."""

    def __init__(self, servers: PrimaryAccess, node: str, hear: Callable[[list[Any]], None]) -> None:
        self._servers = servers
        self._node = node
        self._hear = hear
        self._key = servers.key("roster")
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._wanted = asyncio.Event()
        self._answered_at = 0.0
        self._joined = False
        self._closing = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def away(self) -> bool:
        """True while nothing can be heard of other nodes."""
        return monotonic() - self._answered_at > AWAY_SECONDS

    def start(self) -> None:
        """Begin, and never give up."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._write())]

    async def close(self) -> None:
        """Write what waits, as far as that goes at once, and end the connections."""
        self._closing = True
        self._wanted.set()
        reading, writing = self._tasks
        await asyncio.wait((writing,), timeout=RETRY_SECONDS)
        for task in (reading, writing):
            while not task.done():  # a cancellation can get lost in the library
                task.cancel()
                await asyncio.wait((task,), timeout=0.2)

    @property
    def full(self) -> bool:
        """True while what is not urgent had better wait."""
        return self._queue_bytes > QUEUE_BYTES_MAX // 4

    def send(self, packet: list[Any]) -> None:
        """Hand a packet to the other nodes."""
        data = msgspec.msgpack.encode(packet)
        if self._queue_bytes + len(data) <= QUEUE_BYTES_MAX and not self.away:
            self._queue.append(data)
            self._queue_bytes += len(data)
            self._wanted.set()

    async def _write(self) -> None:
        link: RedisLink | None = None
        while not (self._closing and not self._queue):
            try:
                await self._wanted.wait()
                link = await self._link(link)
                while self._queue:
                    await link.call(*self._entry(), seconds=ANSWER_SECONDS)
                self._wanted.clear()
                if self._closing:
                    break
            except _FAULTS as error:
                log.debug("cannot tell other nodes who is here: %s", error)
                self._queue.clear()  # they will see the gap
                self._queue_bytes = 0
                if self._closing:
                    break
                await asyncio.sleep(RETRY_SECONDS)
        if link is not None:
            await link.close()

    def _entry(self) -> tuple[Any, ...]:
        packets = [self._queue.popleft()]
        size = len(packets[0])
        while self._queue and size + len(self._queue[0]) <= ENTRY_BYTES:
            packets.append(self._queue.popleft())
            size += len(packets[-1])
        self._queue_bytes -= size
        return ("XADD", self._key, "MAXLEN", "~", ENTRIES_MAX, "*", "n", self._node, "p", *_joined(packets))

    async def _read(self) -> None:
        link: RedisLink | None = None
        last = b""
        while not self._closing:
            try:
                before, link = link, await self._link(link)
                if link is not before or not last:
                    newest = await link.call("XREVRANGE", self._key, "+", "-", "COUNT", 1, seconds=ANSWER_SECONDS)
                    last = newest[0][0] if newest else b"0-0"
                self._answered_at = monotonic()
                if not self._joined:
                    self._joined = True
                    self.send(["?", "*"])
                answer = await link.call(
                    "XREAD", "COUNT", 20, "BLOCK", BLOCK_MS, "STREAMS", self._key, last, seconds=ANSWER_SECONDS
                )
                self._answered_at = monotonic()
                for entry, fields in answer[0][1] if answer else ():
                    last = entry
                    self._take(fields)
                    await asyncio.sleep(0)  # whoever else has something to do
            except _FAULTS as error:
                log.debug("cannot hear who is on other nodes: %s", error)
                last = b""
                await asyncio.sleep(RETRY_SECONDS)
        if link is not None:
            await link.close()

    def _take(self, fields: list[bytes]) -> None:
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        if named.get(b"n") == self._node.encode():
            return
        try:
            packets = msgspec.msgpack.decode(named[b"p"], type=list[list[Any]])
        except (msgspec.MsgspecError, KeyError) as error:
            log.error("an entry of the roster cannot be read: %s", error)
            return
        for packet in packets:
            self._hear(packet)

    async def _link(self, link: RedisLink | None) -> RedisLink:
        """Return a connection to the primary of now; raise one of ``AWAY``."""
        address = await self._servers.primary()
        if link is not None and link.address == address and link.connected:
            return link
        if link is not None:
            await link.close()
        return self._servers.link(address)


def _joined(packets: list[bytes]) -> tuple[bytes]:
    """Return encoded packets as one encoded list of them."""
    return (b"\xdd" + len(packets).to_bytes(4, "big") + b"".join(packets),)
