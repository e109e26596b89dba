"""Plain sockets of clients: their descriptors, which one epoll watches and each is read and written by its own."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Protocol

from ...listen_address import Listener
from ..runtime.epoll import Watched
from .client_socket import ClientSocket

READ_BYTES_MAX = 64 << 10
"""Bytes that are read at once: they bound what one client can make the server do before the others have their turn."""


class Watch(Protocol):
    """Tells which sockets can be read or written (edge/runtime/epoll.py)."""

    def add(self, fd: int, connection: Watched) -> None:
        """Watch a socket for bytes to read."""

    def change(self, fd: int, reading: bool, writing: bool) -> None:
        """Watch the descriptor for these events from now on."""

    def forget(self, fd: int) -> None:
        """Watch the descriptor no more."""


class PlainConnection(Watched, Protocol):
    """A connection that owns a descriptor; ``writing`` says that it waits for room."""

    fd: int
    held: int
    writing: bool

    def received(self, data: bytes) -> None:
        """Take what was read."""

    def still_answers(self) -> bool:
        """Return whether the peer, which says nothing more, is answered for a moment all the same."""

    def lost(self) -> None:
        """Let go of everything, as the connection is over."""


class PlainSockets(ClientSocket[PlainConnection]):
    """The sockets of all plain connections of a port."""

    __slots__ = ("_watch",)

    direct = True

    def __init__(self, watch: Watch, listener: Listener) -> None:
        super().__init__(listener)
        self._watch = watch

    def begin(self, connection: PlainConnection) -> None:
        """Watch the connection's socket from now on."""
        self._watch.add(connection.fd, connection)

    def receive(self, connection: PlainConnection) -> None:
        """Read from the socket, which has bytes or its end."""
        try:
            data = os.read(connection.fd, READ_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            connection.lost()
            return
        if data:
            connection.received(data)
        elif not connection.still_answers():
            connection.lost()

    def send(self, connection: PlainConnection, data: bytes | memoryview) -> int:
        """Write once and return the bytes taken; 0 when the socket is full."""
        if connection.ended:
            return -1
        try:
            return os.write(connection.fd, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return -1

    def await_writable(self, connection: PlainConnection, wanted: bool) -> None:
        """Watch for room in the socket."""
        if wanted != connection.writing and not connection.ended:
            connection.writing = wanted
            self._watch.change(connection.fd, not connection.held, wanted)

    def await_readable(self, connection: PlainConnection, wanted: bool) -> None:
        """Watch for bytes to read."""
        if not connection.ended:
            self._watch.change(connection.fd, wanted, connection.writing)

    def finish(self, connection: PlainConnection) -> None:
        """Close the sending half: the peer sees the end, and we still see its."""
        with suppress(OSError):
            sock = socket.socket(fileno=connection.fd)
            try:
                sock.shutdown(socket.SHUT_WR)
            finally:
                sock.detach()

    def shut(self, connection: PlainConnection) -> None:
        """Close the socket: first nobody may hear of its descriptor any more."""
        self._watch.forget(connection.fd)
        os.close(connection.fd)
