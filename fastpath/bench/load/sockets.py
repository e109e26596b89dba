"""Non-blocking sockets by their file descriptors, plain or TLS, from as many local addresses as are needed."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable

from fastpath.core.protocol.errors import FastpathError

CONNECTIONS_PER_SOURCE = 10_000
"""One local address has 28,000 ephemeral ports to one destination; finding one of the last takes the kernel long."""

IP_BIND_ADDRESS_NO_PORT = 24
"""Linux: the port is chosen when connecting, so that many destinations share it; Python 3.11 has no name for it."""

WRITE_SECONDS_MAX = 20


class BenchError(FastpathError):
    """A measurement cannot be made; the text says why and what to do."""


class Sockets:
    """Plain TCP. A descriptor is all that a connection costs: 19,000 of them live in one small process."""

    def __init__(self, host: str, port: int) -> None:
        self.read: Callable[[int, int], bytes] = os.read
        self.write: Callable[[int, bytes], int] = os.write
        self.address = (host, port)
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._loopback = host.startswith("127.")

    def open(self, number: int) -> int:
        """Begin to connect the connection of this number; raises BenchError."""
        try:
            sock = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            raise BenchError(f"no socket for connection {number}: {error.strerror}; use more --processes") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._loopback:
            sock.setsockopt(socket.SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            source = number // CONNECTIONS_PER_SOURCE
            sock.bind((f"127.0.{1 + source // 250}.{1 + source % 250}", 0))
        result = sock.connect_ex(self.address)
        if result not in (0, errno.EINPROGRESS):
            sock.close()
            raise BenchError(f"{self.address[0]}:{self.address[1]}: {os.strerror(result)}")
        return sock.detach()

    def fault(self, fd: int) -> str:
        """Return why connecting failed; empty if it did not."""
        with socket.socket(fileno=os.dup(fd)) as sock:
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return os.strerror(number) if number else ""

    def shaken(self, fd: int) -> bool:
        """Return whether the connection can carry data; with TLS the next step of the handshake is made."""
        del fd
        return True

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        os.close(fd)

    def write_all(self, fd: int, data: bytes) -> None:
        """Write all, waiting where the socket is full; raises BenchError when the server does not read."""
        end = time.monotonic() + WRITE_SECONDS_MAX
        while data:
            try:
                data = data[self.write(fd, data) :]
            except BlockingIOError:
                if not select.select([], [fd], [], max(0, end - time.monotonic()))[1]:
                    raise BenchError(f"the server did not read for {WRITE_SECONDS_MAX} s") from None


class TlsSockets(Sockets):
    """TLS: a Python object a connection, and OpenSSL's state."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, name: str) -> None:
        super().__init__(host, port)
        self._context = context
        self._name = name
        self._sockets: dict[int, ssl.SSLSocket] = {}
        self.read = self._read
        self.write = self._write

    def shaken(self, fd: int) -> bool:
        """Take one step of the handshake; raises BenchError when it fails."""
        try:
            if fd not in self._sockets:
                # Not before it is connected: wrapping looks at the peer.
                sock = socket.socket(fileno=fd)
                sock.setblocking(False)
                self._sockets[fd] = self._context.wrap_socket(
                    sock, server_hostname=self._name, do_handshake_on_connect=False
                )
            self._sockets[fd].do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            raise BenchError(f"TLS with {self.address[0]}:{self.address[1]}: {error}") from None
        return True

    def close(self, fd: int) -> None:
        wrapped = self._sockets.pop(fd, None)
        if wrapped is None:
            os.close(fd)
        else:
            wrapped.close()

    def _read(self, fd: int, size: int) -> bytes:
        try:
            return self._sockets[fd].recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def _write(self, fd: int, data: bytes) -> int:
        try:
            return self._sockets[fd].send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
