"""A plain client connection on a raw socket: the loop only says when it is readable."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from ..settings import Listener
from .clients import ClientConnection
from .hub import Hub

READ_BYTES_MAX = 64 << 10
"""Read at once: bounds what one client can make the server do before the others have their turn."""


class RawConnection(ClientConnection):
    """Reads and writes the descriptor itself: under 1 KiB a connection."""

    __slots__ = ("_reading", "_writing", "sock")

    direct = True

    def __init__(self, hub: Hub, sock: socket.socket, address: str, listener: Listener) -> None:
        super().__init__(hub, sock.fileno(), address, listener)
        self.sock = sock
        self._reading = self._writing = False
        self.await_readable(True)

    def readable(self) -> None:
        """The loop says that there is something to read."""
        if self.ended:
            return
        try:
            data = self.sock.recv(READ_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self.received(data)
        else:
            self.lost()

    def send_now(self, data: bytes) -> int:
        """One write; 0 when the socket is full."""
        if self.ended:
            return -1
        try:
            return os.write(self.fd, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return -1

    def await_writable(self, wanted: bool) -> None:
        """Watch for room in the socket."""
        if wanted != self._writing and not self.ended:
            self._writing = wanted
            if wanted:
                self.hub.loop.add_writer(self.fd, self.writable)
            else:
                self.hub.loop.remove_writer(self.fd)

    def await_readable(self, wanted: bool) -> None:
        """Watch for bytes to read."""
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                self.hub.loop.add_reader(self.fd, self.readable)
            else:
                self.hub.loop.remove_reader(self.fd)

    def finish(self) -> None:
        """Half-close: the peer sees the end, and we still see its."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def shut(self) -> None:
        """Close the socket: first nobody may hear of its descriptor any more."""
        if self._writing:
            self.hub.loop.remove_writer(self.fd)
        if self._reading:
            self.hub.loop.remove_reader(self.fd)
        self.sock.close()
