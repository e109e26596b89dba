"""A small TCP proxy, so that a test can hold up and cut connections and shut the door as a network does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_SECONDS


class Proxy:
    """``with Proxy("127.0.0.1:8800") as proxy:`` listens at ``proxy.address`` in a thread of its own."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("ws://").partition("/")[0].rpartition(":")
        self._target = host, int(port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._port = free_port()  # for when it is opened again: no client may have it meanwhile

    def __enter__(self) -> Self:
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """``host:port`` where the proxy listens, the same after ``open()`` as before ``shut()``."""
        return f"127.0.0.1:{self._port}"

    def open(self) -> None:
        """Listen."""
        self._do(self._listen)

    def cut(self) -> None:
        """Reset all connections; new ones are taken."""
        self._do(self._abort)

    def shut(self) -> None:
        """Reset all connections and refuse new ones until ``open()``."""
        self._do(self._refuse)

    def stall(self) -> None:
        """Let nothing through, in either direction, until ``flow()``."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        """Let through what came meanwhile, and all that comes."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def _do(self, work: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(PATIENCE_SECONDS)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self._port)

    async def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._abort()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self.relay(reader, writer)
        except OSError:
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        async with self.onward() as (out_reader, out_writer):
            await asyncio.gather(self.pump(reader, out_writer), self.pump(out_reader, writer))

    @contextlib.asynccontextmanager
    async def onward(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to the target."""
        out_reader, out_writer = await asyncio.open_connection(*self._target)
        self._writers.add(out_writer)
        try:
            yield out_reader, out_writer
        finally:
            self._writers.discard(out_writer)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on what comes, in one direction, until it ends."""
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
