"""A connection to the control socket for code that runs in an event loop (protocol.md 8)."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast

from fastpath.core.protocol.packets import ANSWER_BYTES_MAX, Unpacker, pack

from ..errors import ClientError, ControlRefused, SidecarSilent, SidecarUnavailable
from .address import TLS_SCHEME, parse_tls
from .client import FRAME_BYTES_MAX, VERSION, Answer

CROWD_SECONDS = 0.005
"""Seconds to wait for others that connect at the same time."""

Answered = Callable[[Answer | None, ClientError | None], None]
"""Function that takes the answer, or else why there is none: ControlRefused, SidecarUnavailable."""

Pushed = Callable[[str, Answer], None]
"""Function that takes a push, which nobody asked for: its name and its content."""


class AsyncControl(asyncio.Protocol):
    """One connection, of one loop; a lost one is not opened again. ``connect()`` makes it.

    What is asked within a turn of the loop is written at once; answers may come in any order.
    """

    def __init__(self, path: str, pushed: Pushed, lost: Callable[[], None]) -> None:
        """Prepare a connection that calls ``lost`` once, after every caller has been told that there is no answer."""
        self.path = path
        self._pushed = pushed
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unpacker = Unpacker(ANSWER_BYTES_MAX)
        self._asked: dict[int, Answered] = {}
        self._unsent: list[bytes] = []
        self._number = 0
        self._closed = False

    @property
    def open(self) -> bool:
        """State of the connection: True while it is open."""
        return self._transport is not None and not self._closed

    def ask(self, verb: str, arguments: Answer, answered: Answered) -> int:
        """Ask for a verb; the number of the request. On a connection that is lost ``answered`` is called at once."""
        self._number += 1
        if not self.open:
            answered(None, self._unavailable("the connection is closed"))
            return self._number
        request = pack([self._number, verb, arguments])
        if len(request) - 4 > FRAME_BYTES_MAX:
            answered(None, ControlRefused("too_large", f"{len(request)} bytes pass the bound of {FRAME_BYTES_MAX}"))
            return self._number
        self._asked[self._number] = answered
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(request)
        return self._number

    async def call(self, verb: str, arguments: Answer, seconds: float) -> Answer:
        """Ask for a verb and wait for its answer, at most so long; raises ControlRefused, SidecarUnavailable."""
        future: asyncio.Future[Answer] = self._loop.create_future()

        def answered(answer: Answer | None, error: ClientError | None) -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(answer or {})

        self.ask(verb, arguments, answered)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            self.close()
            raise SidecarSilent(self.path, f"no answer within {seconds:g} s") from None

    def close(self) -> None:
        """End the connection without waiting; what is asked has no answer."""
        if self._transport is not None:
            self._transport.abort()
        self._end("this side closed the connection")

    def abandon(self) -> None:
        """Let go of the parent's connection in the child of a fork; the parent goes on using it."""
        if self._transport is not None and self.open:
            # The number stays taken, so that whatever still closes it here closes nothing else.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self._transport.get_extra_info("socket").fileno())
            os.close(nothing)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hand on the answers and pushes that are complete with this data."""
        for packet in self._unpacker.feed(data):
            match packet:
                case [0, str(name), dict(content)]:
                    self._pushed(name, content)
                case [int(number), "ok", dict(values)] if number in self._asked:
                    self._asked.pop(number)(values, None)
                case [int(number), "error", {"code": str(code), "reason": str(reason)}] if number in self._asked:
                    self._asked.pop(number)(None, ControlRefused(code, reason))
        if self._unpacker.error is not None:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every caller that the sidecar is gone."""
        self._end(getattr(exc, "strerror", None) or "the sidecar closed the connection")

    def _send(self) -> None:
        requests, self._unsent = self._unsent, []
        if requests and self._transport is not None and not self._closed:
            self._transport.write(b"".join(requests))

    def _end(self, why: str) -> None:
        if self._closed:
            return
        self._closed = True
        asked, self._asked = self._asked, {}
        for answered in asked.values():
            answered(None, self._unavailable(why))
        self._lost()

    def _unavailable(self, why: str) -> SidecarUnavailable:
        return SidecarUnavailable(self.path, why)


async def connect(path: str, client: str, seconds: float, pushed: Pushed, lost: Callable[[], None]) -> AsyncControl:
    """Return an open connection to a control socket's path or ``tls://`` address, within so many seconds.

    Raises SidecarUnavailable, ControlRefused, and ValueError for an address that is none.
    """
    control = AsyncControl(path, pushed, lost)
    try:
        async with asyncio.timeout(seconds):
            await _open(control)
            await control.call("hello", {"version": VERSION, "client": client}, seconds)
    except TimeoutError:
        control.close()
        raise SidecarSilent(path, f"no answer within {seconds:g} s") from None
    except OSError as error:
        control.close()
        if isinstance(error, SidecarUnavailable):
            raise
        raise SidecarUnavailable(path, error.strerror or str(error)) from None
    except BaseException:
        control.close()
        raise
    return control


async def _open(control: AsyncControl) -> None:
    loop = asyncio.get_running_loop()
    if control.path.startswith(TLS_SCHEME):
        host, port, files = parse_tls(control.path)
        context = ssl.create_default_context(cafile=files["ca"])
        context.load_cert_chain(files["cert"], files["key"])
        await loop.create_connection(lambda: control, host, port, ssl=context)
        return
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        while True:
            try:
                connection.connect(control.path)
                break
            except BlockingIOError:  # so many connect at once that the sidecar has to take some of them first
                await asyncio.sleep(CROWD_SECONDS)
        await loop.create_unix_connection(lambda: control, sock=connection)
    except BaseException:
        connection.close()
        raise
