"""One request on a connection of its own to the sidecar's client port, by asyncio: the body there, the answer back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple

import h11

from realtime.forwarding.heads import Header, Target, in_bytes, latin

PIECE_BYTES = 64 << 10
"""Read at once, and twice as much is what a connection holds of what its reader has not taken."""

OPEN_SECONDS = 5.0
"""Seconds that a connection to the sidecar may take."""

ANSWER_SECONDS = 100.0
"""Seconds that the head of an answer may take: a body for a minute, then thirty seconds of waiting for news."""

HEAD_BYTES_MAX = 64 << 10


class UpstreamError(Exception):
    """The sidecar does not answer, or not to the end."""


class Head(NamedTuple):
    """The head of an answer; ``length`` is that of its body, -1: as long as it lasts."""

    status: int
    headers: list[Header]
    length: int


class Upstream:
    """The course of one request; ``close`` ends it wherever it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)

    @classmethod
    async def open(cls, target: Target) -> Upstream:
        """Connect; raises UpstreamError."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                secure = ssl.create_default_context() if target.is_secure else None
                return cls(*await asyncio.open_connection(target.host, target.port, limit=PIECE_BYTES, ssl=secure))
        except (OSError, TimeoutError) as error:
            raise UpstreamError(f"{target.host}:{target.port}: {error or 'no answer'}") from error

    def close(self) -> None:
        """End the connection, whatever is on its way."""
        self._writer.transport.abort()

    async def ask(self, method: str, target: str, headers: list[Header]) -> None:
        """Send the head; raises ValueError for what is no HTTP."""
        rows = [*in_bytes(headers), (b"connection", b"close")]
        try:
            head = self._h11.send(h11.Request(method=method, target=target, headers=rows))
        except h11.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        await self._write(head)

    async def send(self, data: bytes) -> None:
        """Send a piece of the body, and return when there is room for more."""
        if data and self._h11.our_state is h11.SEND_BODY:
            await self._write(self._h11.send(h11.Data(data=data)))

    async def end(self) -> None:
        """End the body, which is whole."""
        if self._h11.our_state is h11.SEND_BODY:
            with suppress(h11.LocalProtocolError):  # the caller went in the middle of a body that has a length
                await self._write(self._h11.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        with suppress(OSError):  # an answer may have come before the end of the body; if there is none, read() says so
            self._writer.write(data or b"")
            await self._writer.drain()

    async def head(self) -> Head:
        """Return the head of the answer; raise UpstreamError, and TimeoutError when it takes too long."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                event = await self._next()
                if isinstance(event, h11.Response):
                    rows = latin(event.headers.raw_items())
                    lengths = [int(value) for name, value in rows if name.lower() == "content-length"]
                    return Head(event.status_code, rows, lengths[0] if lengths else -1)

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body piece by piece, as it comes; raise UpstreamError when its end is missing."""
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    async def _next(self) -> h11.Event:
        while True:
            try:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(await self._reader.read(PIECE_BYTES))
                elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                    return event
                else:
                    raise UpstreamError("the connection ended")
            except (OSError, h11.RemoteProtocolError) as error:
                raise UpstreamError(str(error)) from error
