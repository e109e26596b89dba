"""A proxy that is in the way of WebSockets and streams, as firewalls and the proxies of companies and hotels are."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from tests.support.proxy import Proxy

Upgrades = int | Literal["pass", "swallow", "ignore"]
"""What becomes of a request for a WebSocket: the status of its refusal; or the WebSocket opens, and no frame passes
(``swallow``); or there is no answer (``ignore``)."""

METHODS = (b"GET ", b"POST ", b"DELETE ", b"OPTIONS ")


class Obstacles(Proxy):
    """``buffers``: no byte of a session's stream passes before its end. ``cut_bytes``: an answer is cut behind so many.

    ``idle_seconds``: a connection on which the server says nothing for so long is ended. ``loses_every``: one in so
    many answers to a POST or a poll is lost on its way.
    """

    def __init__(
        self,
        target: str,
        *,
        upgrades: Upgrades = "pass",
        buffers: bool = False,
        cut_bytes: int | None = None,
        idle_seconds: float | None = None,
        loses_every: int = 0,
    ) -> None:
        super().__init__(target)
        self.upgrades = upgrades
        self.requests: list[str] = []
        """The first lines of requests so far, without their queries."""
        self._buffers = buffers
        self._cut_bytes = cut_bytes
        self._idle = idle_seconds
        self._loses_every = loses_every
        self._answers = 0

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        if b"upgrade: websocket" in head.lower() and self.upgrades != "pass":
            await self._obstruct(head, reader, writer)
            return
        async with self.onward() as onward:
            try:
                carried = _Carried(self, head, (reader, writer), onward)
                await carried.run(self._buffers, self._cut_bytes, self._idle)
            finally:
                onward[1].transport.abort()
                writer.close()

    def loses(self, line: bytes) -> bool:
        """Whether the answer to this request, which begins to arrive, is lost."""
        if not self._loses_every or not line.startswith((b"POST /session/", b"GET /session/poll?")):
            return False
        self._answers += 1
        return self._answers % self._loses_every == 0

    async def _obstruct(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append("GET /ws")
        if isinstance(self.upgrades, int):
            answer = b"HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % self.upgrades
            writer.write(answer)
            await writer.drain()
        elif self.upgrades == "swallow":
            async with self.onward() as (out_reader, out_writer):
                out_writer.write(head)
                writer.write(await out_reader.readuntil(b"\r\n\r\n"))
                with contextlib.suppress(OSError):
                    while await reader.read(1 << 16):
                        pass
                out_writer.transport.abort()
        else:
            with contextlib.suppress(OSError):
                await reader.read()
        writer.close()


class _Carried:
    """One connection with the requests on it, which come one after the other."""

    def __init__(
        self,
        proxy: Obstacles,
        head: bytes,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client, self._client_writer = client
        self._server, self._server_writer = server
        self._head = head
        self._line = b""
        self._bytes = 0

    async def run(self, buffers: bool, cut_bytes: int | None, idle: float | None) -> None:
        up = asyncio.create_task(self._up())
        try:
            await self._down(buffers, cut_bytes, idle)
        except TimeoutError:
            self._client_writer.transport.abort()
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)

    async def _up(self) -> None:
        data = self._head
        try:
            while data:
                if data.startswith(METHODS):
                    self._line, self._bytes = data.partition(b"\r\n")[0], 0
                    self._proxy.requests.append(" ".join(self._line.decode().partition("?")[0].split(" ")[:2]))
                self._server_writer.write(data)
                await self._server_writer.drain()
                data = await self._client.read(1 << 16)
        except OSError:
            pass
        self._server_writer.transport.abort()

    async def _down(self, buffers: bool, cut_bytes: int | None, idle: float | None) -> None:
        held = b""
        while data := await asyncio.wait_for(self._server.read(1 << 16), idle):
            if buffers and self._line.startswith(b"GET /session/stream"):
                held += data
                continue
            if self._bytes == 0 and self._proxy.loses(self._line):
                self._client_writer.transport.abort()
                return
            self._bytes += len(data)
            if cut_bytes is not None and self._bytes > cut_bytes:
                self._client_writer.write(data[: cut_bytes - self._bytes])
                await self._client_writer.drain()
                self._client_writer.transport.abort()
                return
            self._client_writer.write(data)
            await self._client_writer.drain()
        self._client_writer.write(held)
