"""The transport ``stream``: the server's frames as events of one long answer, the client's by POST."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from fastpath.core.protocol.codec import Form

from .http1 import Origin, with_query
from .link import ABNORMAL, FRAME_BYTES_MAX, LinkEndedError, NotOpenedError, not_opened
from .session import HttpSession, SessionLink, check_opened, read_terms


class Goodbye(msgspec.Struct):
    """A close of the server."""

    code: int
    reason: str = ""


class EventReader:
    """The events of ``text/event-stream`` in pieces of bytes, as (name, data), with what the server uses of that
    format."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._scanned = 0

    def take(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events that are complete now; raise LinkEndedError for one that is too large."""
        self._rest += piece
        end = self._rest.rfind(b"\n\n", max(self._scanned - 1, 0))
        if end == -1:
            self._scanned = len(self._rest)
            if self._scanned > FRAME_BYTES_MAX:
                raise LinkEndedError(ABNORMAL, f"an event of more than {FRAME_BYTES_MAX} bytes")
            return []
        whole, self._rest, self._scanned = bytes(self._rest[:end]), self._rest[end + 2 :], 0
        return [event for block in whole.split(b"\n\n") if (event := _event(block)) is not None]


def _event(block: bytes) -> tuple[bytes, bytes] | None:
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, text = line.partition(b":")
        text = text.removeprefix(b" ")
        if field == b"event":
            name = text
        elif field == b"data":
            data.append(text)
    return (name, b"\n".join(data)) if data else None


class StreamLink(SessionLink):
    """A session whose frames come as a stream."""

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        super().__init__(origin, tls)
        self._pieces: AsyncIterator[bytes] | None = None
        self._reader = EventReader()
        self._events: deque[tuple[bytes, bytes]] = deque()

    async def open(self) -> None:
        """Begin, and wait for the first event."""
        head = await self._requests.begin("GET", with_query(f"{self._origin.base}/stream", self._origin.query))
        check_opened(head, "text/event-stream")
        self._pieces = self._requests.pieces()
        name, data = await self._next()
        if name != b"session":
            raise NotOpenedError("refused", "what answers is no session over HTTP")
        self._session = HttpSession(self._origin, read_terms(data), self._tls)

    async def read(self) -> bytes:
        """Return the next frame."""
        while True:
            name, data = await self._next()
            if not name:
                return data
            if name == b"close":
                goodbye = msgspec.json.decode(data, type=Goodbye)
                raise LinkEndedError(goodbye.code, goodbye.reason)

    async def _next(self) -> tuple[bytes, bytes]:
        assert self._pieces is not None
        while not self._events:
            try:
                self._events.extend(self._reader.take(await anext(self._pieces)))
            except StopAsyncIteration:
                raise LinkEndedError(ABNORMAL, "the stream has ended") from None
        return self._events.popleft()


async def open_stream(
    url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None = None
) -> StreamLink:
    """Begin a session; raises NotOpenedError where no first event comes in time."""
    link = StreamLink(Origin.of(url, proxy), tls)
    try:
        async with asyncio.timeout(seconds):
            await link.open()
    except BaseException as error:
        await link.close()
        if isinstance(error, OSError):
            raise not_opened(error, proxy) from None
        if isinstance(error, LinkEndedError):
            raise NotOpenedError("refused", "the stream ended before its first event") from None
        raise
    return link


async def probe_stream(
    url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None = None
) -> bool:
    """Return True if a first event arrives."""
    try:
        link = await open_stream(url, form, seconds, tls, proxy)
    except NotOpenedError:
        return False
    await link.close()
    return True
