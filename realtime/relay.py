"""The relay at /ws of the web port: frames both ways between a browser and the sidecar's client port.

It is for pages whose browser reaches the web port alone. What the browser sends is held here up to a bound; what the
sidecar sends is read no faster than the browser takes it (realtime/web.py), so that the sidecar's own bounds apply.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import ParseResult

from channels.routing import URLRouter
from channels.security.websocket import OriginValidator
from django.urls import path
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from fastpath.core.protocol.errors import Close
from realtime.conf import conf
from realtime.forwarding.heads import allowed_hosts, forwarded_for, quoted_query, without_prefix

_QUEUE_BYTES_MAX = 2 << 20
"""Bytes that a browser may send ahead of the sidecar, beside one message of it."""

_FRAMES_AHEAD = 2
"""Number of frames that the browser has not taken and that are read ahead: each may be a whole snapshot."""

_OPEN_SECONDS = 5
_CLOSE_SECONDS = 2

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A subprotocol's name (RFC 7230 3.2.6); Daphne unquotes the header, so anything could be in there."""

_SENDABLE = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014})

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)

_made = threading.Event()


class _End(NamedTuple):
    """The end of a connection; ``code`` and ``reason`` are for the side that is still there."""

    code: int
    reason: str


class _KnownOrigins(OriginValidator):
    """Refuses browsers' connections from pages of other sites; other programs send no Origin and need none."""

    def valid_origin(self, parsed_origin: ParseResult | None) -> bool:
        """Return True if the page is of one of this site's hosts."""
        return parsed_origin is None or self.validate_origin(parsed_origin)


def is_served() -> bool:
    """Return True if the relay is a part of this process's application: under WSGI, for example, there is none."""
    return _made.is_set()


def websocket_application() -> Any:
    """Return the ASGI application for WebSockets: /ws, for pages of ALLOWED_HOSTS."""
    _made.set()
    router = URLRouter([path("ws", relay), path("<path:_>", _nothing), path("", _nothing)])

    async def below_prefix(scope: Scope, receive: Receive, send: Send) -> None:
        rest = without_prefix(scope["path"], scope.get("root_path", ""))
        await router({**scope, "path": rest, "root_path": ""}, receive, send)

    return _KnownOrigins(below_prefix, allowed_hosts())


async def _nothing(_scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse the handshake of an address that is not there."""
    await receive()
    await send({"type": "websocket.close"})


async def relay(scope: Scope, receive: Receive, send: Send) -> None:
    """Relay one browser's connection until either side ends it."""
    if (await receive())["type"] != "websocket.connect":
        return
    try:
        upstream = await _open(scope)
    except (OSError, WebSocketException, ValueError) as error:
        _log.warning("the sidecar's client port %s does not answer: %s", conf.relay_url or "(none)", error)
        await send({"type": "websocket.accept"})
        await _close_browser(send, _End(Close.DRAIN, "drain: the sidecar is not running; retry"))
        return
    try:
        await send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
        await _Pair(upstream, receive, send).run()
    finally:
        await upstream.close(Close.GOING_AWAY)


async def _open(scope: Scope) -> ClientConnection:
    """Connect to the sidecar as the browser asked to be connected; raises OSError or WebSocketException."""
    query = quoted_query(scope.get("query_string", b""))
    names = [name for name in scope.get("subprotocols", ()) if _TOKEN.fullmatch(name)]
    return await connect(
        conf.relay_url + (f"?{query}" if query else ""),
        subprotocols=names or None,  # type: ignore[arg-type]
        additional_headers={"X-Forwarded-For": _forwarded_for(scope)},
        compression=None,
        max_size=None,  # the sidecar's own settings bound them
        max_queue=_FRAMES_AHEAD,
        proxy=None,
        open_timeout=_OPEN_SECONDS,
        close_timeout=_CLOSE_SECONDS,
        # The sidecar sends pings, and closes what does not answer.
        ping_interval=None,
    )


def _forwarded_for(scope: Scope) -> str:
    before = [value.decode("latin1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    client = scope.get("client")
    return forwarded_for(before, client[0] if client else "")


class _Pair:
    """A browser's connection and its counterpart at the sidecar."""

    def __init__(self, upstream: ClientConnection, receive: Receive, send: Send) -> None:
        self._upstream = upstream
        self._receive = receive
        self._send = send
        self._queue: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._queued_bytes = 0
        self._browser_code: int = Close.GOING_AWAY

    async def run(self) -> None:
        """Carry frames until a side ends, then end the other with the same code."""
        from_browser = asyncio.create_task(self._from_browser())
        to_browser = asyncio.create_task(self._to_browser())
        to_sidecar = asyncio.create_task(self._to_sidecar())
        tasks = (from_browser, to_browser, to_sidecar)
        try:
            await asyncio.wait((from_browser, to_browser), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _close_browser(self._send, _End(Close.DRAIN, "drain: the web server restarts"))
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in (from_browser, to_browser):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        if not to_browser.cancelled():
            await _close_browser(self._send, to_browser.result())
        elif (end := from_browser.result()) is not None:
            await _close_browser(self._send, end)
        else:
            await self._upstream.close(self._browser_code)

    async def _from_browser(self) -> _End | None:
        """Take what the browser sends; None when it went, an end when it sends more than the sidecar takes."""
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                code = event.get("code") or 1005
                self._browser_code = code if code in _SENDABLE or 3000 <= code <= 4999 else 1001
                # What it sent before it went still arrives, if the sidecar takes it in time.
                try:
                    await asyncio.wait_for(self._queue.join(), _CLOSE_SECONDS)
                except TimeoutError:
                    pass
                return None
            text = event.get("text")
            data = event["bytes"] if text is None else text
            if self._queued_bytes > _QUEUE_BYTES_MAX:
                return _End(Close.SLOW_CONSUMER, "slow_consumer: the sidecar does not take what you send")
            self._queued_bytes += len(data)
            self._queue.put_nowait(data)

    async def _to_sidecar(self) -> None:
        while True:
            data = await self._queue.get()
            try:
                await self._upstream.send(data)
            except ConnectionClosed:
                pass  # what the sidecar said at the end reaches the browser through _to_browser
            self._queued_bytes -= len(data)
            self._queue.task_done()

    async def _to_browser(self) -> _End:
        """Hand on what the sidecar sends, in order, until it closes."""
        try:
            while True:
                data = await self._upstream.recv()
                await self._send({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})
        except ConnectionClosed as error:
            if error.rcvd is None:
                return _End(Close.DRAIN, "drain: the sidecar went away; reconnect")
            return _End(1000 if error.rcvd.code == 1005 else error.rcvd.code, error.rcvd.reason)


async def _close_browser(send: Send, end: _End) -> None:
    try:
        await send({"type": "websocket.close", "code": int(end.code), "reason": end.reason})
    except Exception:  # Autobahn's own, which sends no code of RFC 6455 but 1000 (realtime/web.py sends them all)
        await send({"type": "websocket.close", "code": 1000})
