"""python -m realtime.web: Daphne with back-pressure, every close code and clean logs; its options are Daphne's.

Daphne buffers without bound what a browser does not read, and an application cannot tell. Here the sending of a
message, or of a piece of an answer, waits while more than Twisted's 64 KiB are unsent. It also hands on the reason of a
close and the codes of RFC 6455, and keeps tokens out of the access log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import threading
import time
from typing import Any

from daphne.access import AccessLogGenerator
from daphne.cli import CommandLineInterface
from daphne.endpoints import build_endpoint_description_strings
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from twisted.internet import defer
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from fastpath.core.protocol.limits import command_bytes_max
from realtime.conf import conf
from realtime.process.programs import require_settings

_MESSAGE_BYTES = 1 << 20
"""Bytes that Daphne takes of a browser where nothing else is asked of it: less than the sidecar does."""

_REASON_BYTES_MAX = 123
"""Bytes that a close frame holds beside its code (RFC 6455 5.5)."""


_END_SECONDS = 3
"""Seconds that connections may take to end when the server stops."""

_THREADS_SECONDS = 5
"""Seconds that threads may go on after that, as those of a request that writes to the database."""

_TOKEN = re.compile(r"([?&]token=)[^&#]*")
"""A token is a key: it does not belong into a log."""


def _logs_at_root() -> bool:
    """Return True if the project itself says where the root of all loggers writes; else that is Daphne's doing."""
    given = settings.LOGGING or {}
    return bool(given.get("root", {}).get("handlers") or given.get("loggers", {}).get("", {}).get("handlers"))


def _is_new(record: logging.LogRecord) -> bool:
    """Return True if nobody has written the record to this process's output yet, as Django's own handler does while
    DEBUG."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None:
        for handler in logger.handlers:
            to_output = isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout)
            if to_output and record.levelno >= handler.level and handler.filter(record):
                return False
        logger = logger.parent if logger.propagate else None
    return True


@implementer(IPushProducer)
class Valve:
    """Open while the transport takes more; Twisted closes it at its buffer's bound and opens it when that is empty."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def pauseProducing(self) -> None:
        """Close the valve: the buffer is full."""
        self._open.clear()

    def resumeProducing(self) -> None:
        """Open the valve: the buffer is empty."""
        self._open.set()

    def stopProducing(self) -> None:
        """Open the valve for good: the connection is gone, and nobody need wait for it."""
        self._open.set()

    async def wait(self) -> None:
        """Return when there is room."""
        await self._open.wait()


class BoundedProtocol(WebSocketProtocol):
    """A WebSocket whose unsent bytes are bounded."""

    valve: Valve | None = None

    def onOpen(self) -> None:
        """Take over the transport's flow control, which is still that of the HTTP request."""
        self.valve = Valve()
        self.transport.unregisterProducer()
        self.transport.registerProducer(self.valve, True)
        super().onOpen()

    def sendMessage(self, *arguments: Any, **options: Any) -> None:
        """Send a message, however large: Autobahn would hold the bound of what browsers send against it."""
        bound, self.maxMessagePayloadSize = self.maxMessagePayloadSize, 0
        try:
            super().sendMessage(*arguments, **options)
        finally:
            self.maxMessagePayloadSize = bound

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:
        """Let go whoever waits for room."""
        if self.valve is not None:
            self.valve.stopProducing()
        super().onClose(wasClean, code, reason)

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Close with code and reason as given; Daphne would drop the reason and refuse most codes."""
        if message.get("type") == "websocket.close" and self.state == self.STATE_OPEN:
            reason = str(message.get("reason") or "").encode()[:_REASON_BYTES_MAX]
            self.sendCloseFrame(code=message.get("code") or 1000, reasonUtf8=reason.decode(errors="ignore").encode())
        else:
            super().handle_reply(message)


class BoundedServer(Server):
    """Daphne, whose ``send`` waits for slow browsers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.websocket_max_message_size == _MESSAGE_BYTES:
            self.websocket_max_message_size = command_bytes_max(conf.message_bytes_max)
        if self.websocket_max_frame_size == _MESSAGE_BYTES:
            self.websocket_max_frame_size = self.websocket_max_message_size
        if not _logs_at_root():
            for handler in logging.getLogger().handlers:
                handler.addFilter(_is_new)
        self._rejected: set[str | None] = set()  # addresses whose sockets are about to end
        self._streams: dict[Any, Valve] = {}
        """Valves of answers over HTTP that come in pieces."""

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """Send, and return when there is room for more."""
        valve = self._stream(protocol, message) if message.get("type") == "http.response.body" else None
        await super().handle_reply(protocol, message)
        if message.get("type") == "websocket.send":
            valve = getattr(protocol, "valve", None)
        if valve is not None:
            await valve.wait()

    def _stream(self, request: Any, message: dict[str, Any]) -> Valve | None:
        """Return the valve of an answer over HTTP of which more is to come; take it off before the last piece."""
        valve = self._streams.get(request)
        if request.channel is None:
            return None
        if message.get("more_body") and valve is None:
            valve = self._streams[request] = Valve()
            request.registerProducer(valve, True)
        elif not message.get("more_body") and valve is not None:
            del self._streams[request]
            request.unregisterProducer()
            valve = None
        return valve

    def protocol_disconnected(self, protocol: Any) -> None:
        """Let go whoever waits for room in an answer that nobody reads any more."""
        if (valve := self._streams.pop(protocol, None)) is not None:
            valve.stopProducing()
        super().protocol_disconnected(protocol)

    def kill_all_applications(self) -> defer.Deferred[Any]:
        """Let every application end its connection in order; Daphne waits for the first alone."""
        running = [details.get("application_instance") for details in self.connections.values()]
        tasks = [task for task in running if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        return defer.Deferred.fromFuture(asyncio.ensure_future(_ended(tasks)))

    def log_action(self, protocol: str, action: str, details: dict[str, Any]) -> None:
        """Write the access log, without tokens; of a WebSocket that was refused one line, instead of Daphne's three."""
        if protocol == "websocket":
            client = details.get("client")
            if action == "rejected":
                self._rejected.add(client)
            elif action == "connecting":
                return  # told when it is known what becomes of it
            elif action == "disconnected" and client in self._rejected:
                self._rejected.discard(client)
                return
        if isinstance(path := details.get("path"), str):
            details = details | {"path": _TOKEN.sub(r"\1…", path)}
        super().log_action(protocol, action, details)


async def _ended(tasks: list[asyncio.Future[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=_END_SECONDS)


def serve(application: Any, descriptor: int, *, has_signals: bool) -> None:
    """Serve on a socket that listens already, until a signal, if they come here; the access log goes to stdout."""
    WebSocketFactory.protocol = BoundedProtocol
    BoundedServer(
        application=application,
        endpoints=build_endpoint_description_strings(file_descriptor=descriptor),
        signal_handlers=has_signals,
        action_logger=AccessLogGenerator(sys.stdout),
        websocket_timeout=-1,  # Daphne's own limit would end a relayed connection after a day
        root_path=getattr(settings, "FORCE_SCRIPT_NAME", "") or "",
    ).run()
    if has_signals:
        signal.set_wakeup_fd(-1)  # Twisted's is closed: a child that ends later would be told with a trace


def _exit_late() -> None:
    time.sleep(_THREADS_SECONDS)
    os._exit(0)


class Web(CommandLineInterface):
    """Daphne's command line."""

    server_class = BoundedServer


def run() -> None:
    """Serve as the arguments of the command line say, until a signal."""
    WebSocketFactory.protocol = BoundedProtocol
    Web().run(sys.argv[1:])


def main() -> None:
    """Run with the arguments of the command line; 2 without DJANGO_SETTINGS_MODULE."""
    require_settings("realtime.web")
    run()
    sys.stdout.flush()
    # A synchronous consumer's thread may wait for the loop, which runs no more: it would be waited for without an end.
    threading.Thread(target=_exit_late, daemon=True).start()


if __name__ == "__main__":
    main()
