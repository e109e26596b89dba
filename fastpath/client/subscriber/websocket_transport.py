"""The WebSocket connection of the asynchronous client, from the handshake to its end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.typing import Subprotocol

from fastpath.core.protocol.codec import JSON, SUBPROTOCOLS, Form
from fastpath.core.protocol.errors import BadFrame

from .machine import ABNORMAL

FRAME_BYTES_MAX = 64 << 20
"""A snapshot may be larger than any message that made it."""

CLOSE_SECONDS = 1


class End(NamedTuple):
    """The end of a connection: the code of its close frame, or ABNORMAL."""

    code: int
    reason: str


class WebSocketTransport:
    """Carries frames both ways; ``receive`` takes each that arrives, ``take_out`` yields what is to be sent."""

    def __init__(self, take_out: Callable[[], list[bytes]], receive: Callable[[bytes], Awaitable[None]]) -> None:
        self.wake = asyncio.Event()
        self._take_out = take_out
        self._receive = receive
        self._form: Form = JSON
        self._left: asyncio.Future[End] | None = None

    def leave(self, end: End) -> None:
        """Close the connection that stands; it ends like this."""
        if self._left is not None and not self._left.done():
            self._left.set_result(end)

    async def run(
        self,
        url: str,
        form: Form,
        seconds: float,
        tls: ssl.SSLContext | None,
        opened: Callable[[Form], Awaitable[None]],
        watch: Callable[[], Awaitable[str]],
    ) -> End:
        """Connect, carry frames until the end, and tell how it came.

        ``opened`` is called once with the form that the server chose; when ``watch`` returns, the connection
        is given up for the reason that it returns.
        """
        offered = next(name for name, meaning in SUBPROTOCOLS.items() if meaning == form)
        try:
            websocket = await connect(
                url,
                subprotocols=[Subprotocol(offered)],
                compression=None,
                ssl=tls or (True if url.startswith("wss:") else None),
                open_timeout=seconds,
                close_timeout=CLOSE_SECONDS,
                ping_interval=None,
                max_size=FRAME_BYTES_MAX,
            )
        except (OSError, WebSocketException) as error:
            return End(ABNORMAL, str(error) or type(error).__name__)
        try:
            # A server that chooses no subprotocol speaks JSON (protocol.md 1.2).
            self._form = SUBPROTOCOLS.get(websocket.subprotocol or "", JSON)
            await opened(self._form)
            return await self._carry(websocket, watch)
        finally:
            # A transport that is aborted twice has forgotten its loop and says so with an AttributeError.
            with contextlib.suppress(AttributeError):
                await websocket.close()

    async def _carry(self, websocket: ClientConnection, watch: Callable[[], Awaitable[str]]) -> End:
        self.wake.set()
        reader = asyncio.create_task(self._read(websocket))
        self._left = asyncio.get_running_loop().create_future()
        tasks: set[asyncio.Future[Any]] = {
            reader,
            self._left,
            asyncio.create_task(self._write(websocket)),
            asyncio.ensure_future(watch()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reader not in done and websocket.state is not State.OPEN:
                # A failed write tells less than the reader, which still gets the server's close frame.
                done, _ = await asyncio.wait({reader}, timeout=CLOSE_SECONDS)
            return _end(*sorted(done, key=lambda task: task is not reader))
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _read(self, websocket: ClientConnection) -> None:
        while True:
            await self._receive(await websocket.recv(decode=False))

    async def _write(self, websocket: ClientConnection) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            for frame in self._take_out():
                await websocket.send(frame, text=self._form == JSON)


def _end(*tasks: asyncio.Future[Any]) -> End:
    """The end of the connection as the finished tasks tell it; an error of the program itself is raised."""
    for task in tasks:
        error = task.exception()
        if isinstance(error, ConnectionClosed):
            return End(error.rcvd.code, error.rcvd.reason) if error.rcvd else End(ABNORMAL, "the connection was lost")
        if isinstance(error, (OSError, BadFrame)):
            return End(ABNORMAL, str(error))
        if error is not None:
            raise error
        result = task.result()
        return result if isinstance(result, End) else End(ABNORMAL, str(result))
    return End(ABNORMAL, "the connection was lost")
