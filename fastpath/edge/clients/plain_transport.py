"""A plain client connection on a raw socket: the loop only says when it is readable."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from ...listen_address import Listener
from ..runtime.runtime import Runtime
from .connection import ClientConnection

READ_BYTES_MAX = 64 << 10
"""Read at once: bounds what one client can make the server do before the others have their turn."""


class RawConnection(ClientConnection):
    """Reads and writes the descriptor itself; it owns it."""

    __slots__ = ("_writing",)

    direct = True

    def __init__(self, runtime: Runtime, fd: int, address: str, listener: Listener) -> None:
        super().__init__(runtime, fd, address, listener)
        self._writing = False
        runtime.watch.add(fd, self)

    def readable(self) -> None:
        """Read from the socket, which has bytes or its end."""
        try:
            data = os.read(self.fd, READ_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lost()
            return
        if data:
            self.received(data)
        elif not self.still_answers():
            self.lost()

    def send_now(self, data: bytes | memoryview) -> int:
        """Write once and return the bytes taken; 0 when the socket is full."""
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
            self.runtime.watch.change(self.fd, not self.held, wanted)

    def await_readable(self, wanted: bool) -> None:
        """Watch for bytes to read."""
        if not self.ended:
            self.runtime.watch.change(self.fd, wanted, self._writing)

    def finish(self) -> None:
        """Half-close: the peer sees the end, and we still see its."""
        with suppress(OSError):
            sock = socket.socket(fileno=self.fd)
            try:
                sock.shutdown(socket.SHUT_WR)
            finally:
                sock.detach()

    def shut(self) -> None:
        """Close the socket: first nobody may hear of its descriptor any more."""
        self.runtime.watch.forget(self.fd)
        os.close(self.fd)
