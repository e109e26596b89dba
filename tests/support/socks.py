"""A tiny SOCKS5 proxy (RFC 1928, 1929), which notes where it was asked to lead, and by whom."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

IPV4, NAME, IPV6 = 1, 3, 4
NO_PASSWORD, PASSWORD = 0, 2
REFUSED = 5


@asynccontextmanager
async def socks(refuses: bool = False) -> AsyncIterator[tuple[str, list[tuple[str, int, str]]]]:
    """``host:port`` of the proxy, and what it was asked for so far: host, port, and the user's name and password."""
    asked: list[tuple[str, int, str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            user = await _greeting(reader, writer)
            host, port = await _request(reader)
            asked.append((host, port, user))
            if refuses:
                writer.write(bytes((5, REFUSED, 0, IPV4)) + bytes(6))
                await writer.drain()
            else:
                there = await asyncio.open_connection(host, port)
                writer.write(bytes((5, 0, 0, IPV4)) + bytes(6))
                await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}", asked


async def _greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    _, count = await reader.readexactly(2)
    methods = await reader.readexactly(count)
    method = PASSWORD if PASSWORD in methods else NO_PASSWORD
    writer.write(bytes((5, method)))
    if method == NO_PASSWORD:
        return ""
    _, size = await reader.readexactly(2)
    name = await reader.readexactly(size)
    (size,) = await reader.readexactly(1)
    password = await reader.readexactly(size)
    writer.write(b"\x01\x00")
    return f"{name.decode()}:{password.decode()}"


async def _request(reader: asyncio.StreamReader) -> tuple[str, int]:
    _, _, _, kind = await reader.readexactly(4)
    if kind == NAME:
        (size,) = await reader.readexactly(1)
        host = (await reader.readexactly(size)).decode()
    else:
        assert kind == IPV4
        host = ".".join(map(str, await reader.readexactly(4)))
    return host, int.from_bytes(await reader.readexactly(2))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
