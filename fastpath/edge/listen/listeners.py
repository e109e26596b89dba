"""Open the addresses to listen on, and accept whoever comes."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...core.auth.allowed_addresses import UNIX
from ...listen_address import Listener, SettingsError
from ..runtime.runtime import Runtime
from .accept import AcceptedSockets
from .addresses import bind, bind_unix

try:
    import resource
except ImportError:  # not on Windows
    _HAS_RESOURCE = False
else:
    _HAS_RESOURCE = True

ACCEPT_MAX = 64
"""Connections accepted in one turn: a reconnection storm must not hold the loop."""

FULL_PAUSE_SECONDS = 0.2
"""Seconds to leave the listener alone when the process may open no more files."""

FILES_RESERVED = 100
"""Files that are not for clients: listeners, publishers, control, logs, connections on their way in."""

SELECT_SOCKETS_MAX = 512
"""Sockets that a loop of asyncio's own watches on Windows."""

DRAIN_MAX = 4096
"""Connections that a full worker still takes from its listener before it closes it."""

REOPEN_SECONDS = 0.2
"""Seconds between two looks of a full worker whether it has room again."""

LACK_SECONDS = 5
"""Seconds for which a worker that could open no more files, before it was full, takes that for its bound."""

log = logging.getLogger("fastpath.ports")


class Ports:
    """All open listeners of one process; ``shared`` when other workers listen on the same client ports.

    A worker that is nearly full then closes its client listeners, so that the kernel sends newcomers to the others.
    Of a unix socket there is one for all workers, which the parent has opened (``inherited``, by path): who is full
    takes nobody from it, and while nobody is to come its connections are ended at once.
    """

    def __init__(
        self,
        runtime: Runtime,
        control: Callable[[], asyncio.Protocol],
        metrics: Callable[[], asyncio.Protocol],
        *,
        shared: bool = False,
        inherited: dict[str, socket.socket] | None = None,
    ) -> None:
        self._runtime = runtime
        self._shared = shared
        self._inherited = inherited or {}
        self._unix: dict[Listener, socket.socket] = {}
        self._sockets: dict[socket.socket, Listener] = {}
        self._listeners: list[Listener] = []  # of clients and publishers, with their real ports
        self._arrivals = AcceptedSockets(runtime, self.full, {"control": control, "metrics": metrics})
        self.control = control
        self.reload = self._arrivals.reload
        self._shut = False
        self._paused = False
        self._closed = False
        self.opened: dict[str, list[str]] = {"clients": [], "publishers": [], "control": [], "metrics": [], "mqtt": []}
        files_max = _files_max()
        self.connections_max = runtime.settings.connections_max or max(files_max - FILES_RESERVED, files_max // 2)
        self._arrivals.connections_max = self.connections_max
        # Those who wait in the queue of a listener that is about to be closed still find room.
        self._full_at = self._full_usually = self.connections_max - min(ACCEPT_MAX, self.connections_max // 10)
        self._lack_until = 0.0

    def open(self, listener: Listener) -> None:
        """Listen on every address that the listener's host stands for; raises SettingsError."""
        sockets = self._bind(listener)
        for sock in sockets:
            for purpose in listener.purposes:
                self.opened[purpose].append(listener.path or _shown(sock))
        if not listener.path:
            listener = replace(listener, port=sockets[0].getsockname()[1])
        if _for_data(listener):
            self._listeners.append(listener)
            if self._paused and not listener.path:  # a worker that takes its place in a node that drains
                for sock in sockets:
                    sock.close()
                return
        self._serve(listener, sockets)

    def pause(self) -> None:
        """Accept no clients and publishers until ``resume``; control and metrics go on."""
        if self._paused or self._closed:
            return
        self._leave({"clients", "publishers", "mqtt"})
        self._paused = True

    def resume(self) -> None:
        """Accept clients and publishers again."""
        if self._paused and not self._closed:
            self._paused = False
            self._open_again()

    def close(self) -> None:
        """Accept nobody any more."""
        self.pause()
        self._closed = True
        for sock in list(self._sockets):
            self._let_go(sock)
        for listener, sock in self._unix.items():
            sock.close()
            if not self._shared:
                with suppress(OSError):
                    Path(listener.path).unlink()
        self._unix = {}

    def full(self) -> bool:
        """Return True if there is no room for the connection that has just been counted."""
        if self._shared and self._runtime.connections >= self._full_at:
            self._runtime.loop.call_soon(self._close_full)
        return self._runtime.connections > self.connections_max

    def taking_none(self) -> bool:
        """Return True if whoever comes now is refused, because all places are taken or, with others, nearly all."""
        return self._shut or self._runtime.connections >= self.connections_max

    def _bind(self, listener: Listener) -> list[socket.socket]:
        if not listener.path:
            return bind(listener, self._runtime.settings, shared=self._shared)
        if listener not in self._unix:
            self._unix[listener] = self._inherited.get(listener.path) or bind_unix(listener)
        return [self._unix[listener]]

    def _serve(self, listener: Listener, sockets: list[socket.socket]) -> None:
        try:
            self._arrivals.prepare(listener)
        except SettingsError:
            for sock in sockets:
                sock.close()
            raise
        for sock in sockets:
            self._sockets[sock] = listener
            self._runtime.loop.add_reader(sock.fileno(), self._accept, sock, listener)

    def _accept(self, listening: socket.socket, listener: Listener, count_max: int = ACCEPT_MAX) -> None:
        for _ in range(count_max):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(listening, listener, error)
                return
            if self._paused and _for_data(listener):
                sock.close()
                continue
            sock.setblocking(False)
            self._arrivals.begin(sock, address[0] if address else UNIX, listener)

    def _pause(self, listening: socket.socket, listener: Listener, error: OSError) -> None:
        """Pause for want of files: others take them, or those who wait in the kernel are taken when some client has
        left."""
        log.warning("cannot accept: %s; trying again", error.strerror)
        loop = self._runtime.loop
        if self._shared and "clients" in listener.purposes:
            self._full_at = min(self._full_at, self._runtime.connections)
            self._lack_until = loop.time() + LACK_SECONDS
            loop.call_soon(self._close_full)
            return
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if listening in self._sockets:
                loop.add_reader(listening.fileno(), self._accept, listening, listener)

        loop.call_later(FULL_PAUSE_SECONDS, resume)

    def _leave(self, purposes: set[str]) -> None:
        """Stop listening for these; who waits in a queue that ends is taken first: it would be reset."""
        for sock, listener in list(self._sockets.items()):
            if not listener.purposes.isdisjoint(purposes):
                if not listener.path:
                    self._accept(sock, listener, DRAIN_MAX)
                    self._let_go(sock)
                elif self._shared and "publishers" not in purposes:
                    self._let_go(sock)

    def _let_go(self, sock: socket.socket) -> None:
        """Hear nothing of it any more. A unix socket stays open: it is opened once."""
        self._runtime.loop.remove_reader(sock.fileno())
        if not self._sockets.pop(sock).path:
            sock.close()

    # A full worker

    def _close_full(self) -> None:
        if self._shut or self._paused or self._closed or self._runtime.connections < self._full_at:
            return
        self._shut = True
        self._leave({"clients"})
        log.info("full with %d connections: the other workers take the next", self._runtime.connections)
        self._runtime.loop.call_later(REOPEN_SECONDS, self._reopen)

    def _reopen(self) -> None:
        if self._closed or self._paused or not self._shut:
            return
        if self._runtime.loop.time() >= self._lack_until:
            self._full_at = self._full_usually
        room = max(1, self._full_at // 20)
        if self._runtime.connections > max(0, self._full_at - room):
            self._runtime.loop.call_later(REOPEN_SECONDS, self._reopen)
            return
        self._open_again()

    def _open_again(self) -> None:
        """Listen again where nobody does."""
        serving = set(self._sockets.values())
        try:
            for listener in self._listeners:
                if listener not in serving:
                    self._serve(listener, self._bind(listener))
        except SettingsError as error:
            log.error("%s; trying again", error)
            self._shut = True
            self._leave({"clients"})
            self._runtime.loop.call_later(REOPEN_SECONDS, self._reopen)
            return
        self._shut = False
        log.info("accepting again: %d connections", self._runtime.connections)


def _shown(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if sock.family == socket.AF_INET6 else f"{host}:{port}"


def _for_data(listener: Listener) -> bool:
    """Return True if the listener is for clients or publishers."""
    return not listener.purposes.isdisjoint(("clients", "publishers", "mqtt"))


def _files_max() -> int:
    """Raise the limit of open files to what the process may have, and say how many that is."""
    if not _HAS_RESOURCE:
        return SELECT_SOCKETS_MAX
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
