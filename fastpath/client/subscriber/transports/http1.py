"""Requests over HTTP/1.1 on one kept connection, one at a time, with answers that are read as they come."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import h11

from .proxies import open_streams

READ_BYTES = 1 << 16
USER_AGENT = "fastpath-python"


class Origin(NamedTuple):
    """Address to which requests go, and the path below which the sessions' are."""

    host: str
    port: int
    secure: bool
    base: str
    query: str
    proxy: str | None = None

    @classmethod
    def of(cls, url: str, proxy: str | None = None) -> Origin:
        """Return the origin for a server: sessions are beside the address of its WebSocket, ``ws://host:port/ws``."""
        parts = urlsplit(url)
        secure = parts.scheme == "wss"
        path = parts.path.rpartition("/")[0]
        return cls(
            parts.hostname or "", parts.port or (443 if secure else 80), secure, f"{path}/session", parts.query, proxy
        )

    @property
    def authority(self) -> str:
        """Value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


class AnswerHead(NamedTuple):
    """The head of an answer."""

    status: int
    content_type: str


class HttpConnection:
    """A kept connection: ``ask()`` for a whole answer; or ``begin()`` one and read its ``pieces()``.

    A request that is cancelled, or not read to its end, takes the connection with it; the next opens another.
    """

    def __init__(self, origin: Origin, tls: ssl.SSLContext | None) -> None:
        self.origin = origin
        self._tls = (tls or ssl.create_default_context()) if origin.secure else None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._state = h11.Connection(h11.CLIENT)

    async def ask(
        self, method: str, target: str, body: bytes = b"", bytes_max: int = READ_BYTES
    ) -> tuple[AnswerHead, bytes]:
        """Send one request and return its whole answer, which is not longer than ``bytes_max``."""
        kept = self._streams is not None
        try:
            return await self._ask(method, target, body, bytes_max)
        except ConnectionError:
            if not kept:
                raise
        # The server has closed the kept connection meanwhile, as it may at any time (RFC 9112 9.6).
        return await self._ask(method, target, body, bytes_max)

    async def _ask(self, method: str, target: str, body: bytes, bytes_max: int) -> tuple[AnswerHead, bytes]:
        head = await self.begin(method, target, body)
        answer = bytearray()
        async for piece in self.pieces():
            answer += piece
            if len(answer) > bytes_max:
                self.close()
                raise OSError(f"an answer of more than {bytes_max} bytes")
        return head, bytes(answer)

    async def begin(self, method: str, target: str, body: bytes = b"") -> AnswerHead:
        """Send a request, and read the head of its answer."""
        try:
            if self._streams is None:
                self._state = h11.Connection(h11.CLIENT)
                origin = self.origin
                self._streams = await open_streams(origin.host, origin.port, self._tls, origin.proxy, READ_BYTES)
            writer = self._streams[1]
            writer.write(self._request(method, target, body))
            await writer.drain()
            while True:
                event = await self._next()
                if isinstance(event, h11.Response):
                    kind = dict(event.headers).get(b"content-type", b"")
                    return AnswerHead(event.status_code, kind.decode("latin-1"))
        except BaseException:
            self.close()
            raise

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body of the answer, as it comes."""
        whole = False
        try:
            while True:
                event = await self._next()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            whole = True
        finally:
            if not whole or self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
                self.close()
            else:
                self._state.start_next_cycle()

    def close(self) -> None:
        """Close the connection, if there is one."""
        streams, self._streams = self._streams, None
        if streams is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                streams[1].transport.abort()

    def _request(self, method: str, target: str, body: bytes) -> bytes:
        headers = [("Host", self.origin.authority), ("User-Agent", USER_AGENT), ("Accept", "*/*")]
        if method == "POST":
            headers += [("Content-Type", "application/x-ndjson"), ("Content-Length", str(len(body)))]
        state = self._state
        sent = state.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if body:
            sent += state.send(h11.Data(data=body)) or b""
        return sent + (state.send(h11.EndOfMessage()) or b"")

    async def _next(self) -> h11.Event:
        assert self._streams is not None
        while True:
            try:
                event = self._state.next_event()
            except h11.RemoteProtocolError as error:
                raise ConnectionResetError(f"the answer is no HTTP: {error}") from None
            if isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("the connection was closed before the answer")
            if event is not h11.NEED_DATA:
                assert not isinstance(event, type)
                return event
            self._state.receive_data(await self._streams[0].read(READ_BYTES))


def with_query(path: str, query: str) -> str:
    """Return the target of a request."""
    return urlunsplit(("", "", path, query, ""))
