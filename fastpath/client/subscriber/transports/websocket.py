"""The transport ``websocket``: frames as they are, in both forms."""

from __future__ import annotations

import contextlib
import logging
import ssl

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidProxy, WebSocketException
from websockets.typing import Subprotocol

from fastpath.core.protocol.codec import JSON, SUBPROTOCOLS, Form

from .link import ABNORMAL, FRAME_BYTES_MAX, LinkEndedError, NotOpenedError, not_opened
from .proxies import SOCKS_MISSING, by_way_of

log = logging.getLogger("fastpath.client")

CLOSE_SECONDS = 1
NORMAL = 1000


class WebSocketLink:
    """A WebSocket that stands."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        # A server that chooses no subprotocol speaks JSON (protocol.md 1.2).
        self.form: Form = SUBPROTOCOLS.get(websocket.subprotocol or "", JSON)

    async def read(self) -> bytes:
        """Return the next frame."""
        try:
            return await self._websocket.recv(decode=False)
        except ConnectionClosed as error:
            raise _ended(error) from None

    async def write(self, frames: list[bytes]) -> None:
        """Send frames in their order."""
        try:
            for frame in frames:
                await self._websocket.send(frame, text=self.form == JSON)
        except ConnectionClosed as error:
            raise _ended(error) from None

    async def close(self) -> None:
        """Say goodbye, and wait for the answer for a short time."""
        # A transport that is aborted twice has forgotten its loop and says so with an AttributeError.
        with contextlib.suppress(AttributeError):
            await self._websocket.close()


async def open_websocket(
    url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None = None
) -> WebSocketLink:
    """Open a WebSocket; raises NotOpenedError."""
    return WebSocketLink(await _connect(url, form, seconds, CLOSE_SECONDS, tls, proxy))


async def probe_websocket(
    url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None = None
) -> bool:
    """Return True if frames pass in both directions: the server answers a close frame with one of its own."""
    try:
        websocket = await _connect(url, form, seconds, seconds, tls, proxy)
        await websocket.close()
    except (NotOpenedError, AttributeError):
        return False
    return websocket.protocol.close_rcvd is not None and websocket.protocol.close_rcvd.code == NORMAL


async def _connect(
    url: str, form: Form, seconds: float, close_seconds: float, tls: ssl.SSLContext | None, proxy: str | None
) -> ClientConnection:
    offered = next(name for name, meaning in SUBPROTOCOLS.items() if meaning == form)
    try:
        return await connect(
            url,
            subprotocols=[Subprotocol(offered)],
            compression=None,
            ssl=tls or (True if url.startswith("wss:") else None),
            open_timeout=seconds,
            close_timeout=close_seconds,
            ping_interval=None,
            max_size=FRAME_BYTES_MAX,
            proxy=proxy,
        )
    except InvalidProxy:
        # Its text has the whole address, with the password.
        raise NotOpenedError("unreachable", by_way_of(proxy, "that is no address of a proxy")) from None
    except WebSocketException as error:
        raise NotOpenedError("refused", by_way_of(proxy, str(error) or type(error).__name__)) from None
    except ImportError as error:
        if proxy is None:
            raise
        log.debug("no connection by way of a proxy: %r", error)
        raise NotOpenedError("unreachable", by_way_of(proxy, SOCKS_MISSING)) from None
    except OSError as error:
        raise not_opened(error, proxy) from None


def _ended(error: ConnectionClosed) -> LinkEndedError:
    if error.rcvd is None:
        return LinkEndedError(ABNORMAL, "the connection was lost")
    return LinkEndedError(error.rcvd.code, error.rcvd.reason)
