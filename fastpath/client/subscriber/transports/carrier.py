"""Carries a client's frames over whichever transport it is told, from the attempt to open it to its end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from fastpath.core.protocol.codec import Form
from fastpath.core.protocol.errors import BadFrame

from ...options import Transport
from .link import ABNORMAL, LinkEnd, LinkEndedError, NotOpenedError, TransportLink
from .poll import open_poll
from .stream import open_stream, probe_stream
from .websocket import open_websocket, probe_websocket

CLOSE_SECONDS = 1

Opener = Callable[[str, Form, float, ssl.SSLContext | None, str | None], Awaitable[TransportLink]]

OPENERS: dict[Transport, Opener] = {"websocket": open_websocket, "stream": open_stream, "poll": open_poll}


class Carrier:
    """A carrier of frames both ways; ``receive`` takes each that arrives, ``take_out`` yields what is to be sent."""

    def __init__(self, take_out: Callable[[], list[bytes]], receive: Callable[[bytes], Awaitable[None]]) -> None:
        self.wake = asyncio.Event()
        self._take_out = take_out
        self._receive = receive
        self._left: asyncio.Future[LinkEnd] | None = None
        self._deaf = False

    def leave(self, end: LinkEnd) -> None:
        """Close the connection that stands; it ends like this."""
        if self._left is not None and not self._left.done():
            self._left.set_result(end)

    def drop(self) -> None:
        """Hear nothing more of the connection that stands, though more of it may have arrived: ``run`` is cancelled."""
        self._deaf = True

    async def run(
        self,
        transport: Transport,
        url: str,
        form: Form,
        seconds: float,
        tls: ssl.SSLContext | None,
        proxy: str | None,
        opened: Callable[[Form], Awaitable[None]],
        watch: Callable[[], Awaitable[str]],
    ) -> LinkEnd:
        """Connect, carry frames until the end, and tell how it came.

        ``opened`` is called once with the form that the server chose; when ``watch`` returns, the connection
        is given up for the reason that it returns.
        """
        try:
            link = await OPENERS[transport](url, form, seconds, tls, proxy)
        except NotOpenedError as error:
            return error.end
        try:
            await opened(link.form)
            return await self._carry(link, watch)
        finally:
            await link.close()

    async def _carry(self, link: TransportLink, watch: Callable[[], Awaitable[str]]) -> LinkEnd:
        self.wake.set()
        self._deaf = False
        reader = asyncio.create_task(self._read(link))
        writer = asyncio.create_task(self._write(link))
        self._left = asyncio.get_running_loop().create_future()
        tasks: set[asyncio.Future[Any]] = {reader, self._left, writer, asyncio.ensure_future(watch())}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reader not in done and writer in done:
                # A failed write tells less than the reader, which still gets the server's goodbye.
                done |= (await asyncio.wait({reader}, timeout=CLOSE_SECONDS))[0]
            return _end(*sorted(done, key=lambda task: task is not reader))
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _read(self, link: TransportLink) -> None:
        while True:
            frame = await link.read()
            if not self._deaf:
                await self._receive(frame)

    async def _write(self, link: TransportLink) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            await link.write(self._take_out())


async def probe(
    transport: Transport, url: str, form: Form, seconds: float, tls: ssl.SSLContext | None, proxy: str | None
) -> bool:
    """Find out if a transport would work at an address, beside the connection that stands."""
    if transport == "websocket":
        return await probe_websocket(url, form, seconds, tls, proxy)
    return await probe_stream(url, form, seconds, tls, proxy)


def _end(*tasks: asyncio.Future[Any]) -> LinkEnd:
    """Return the end of the connection as the finished tasks tell it; raise an error of the program itself."""
    for task in tasks:
        error = task.exception()
        if isinstance(error, LinkEndedError):
            return error.end
        if isinstance(error, (OSError, BadFrame)):
            return LinkEnd(ABNORMAL, str(error))
        if error is not None:
            raise error
        result = task.result()
        return result if isinstance(result, LinkEnd) else LinkEnd(ABNORMAL, str(result), "silent")
    return LinkEnd(ABNORMAL, "the connection was lost")
