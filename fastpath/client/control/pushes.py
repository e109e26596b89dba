"""A connection of the control socket on which the sidecar also says what was not asked (protocol.md 8)."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections import deque
from typing import Any, Self

from fastpath.core.protocol.errors import BadFrame
from fastpath.core.protocol.packets import ANSWER_BYTES_MAX, Unpacker, pack

from ..errors import ControlRefused, SidecarUnavailable
from .address import connect_control
from .client import VERSION

Push = tuple[str, dict[str, Any]]
"""The name of what is said, and its content."""


class Pushes:
    """A connection that the sidecar pushes to: one thread reads, any may send; a lost one is not reopened.

    ``path`` is as for Control; ``timeout_seconds`` bounds the opening, an answer, and the sending of one request.
    """

    def __init__(self, path: str, timeout_seconds: float = 5, client: str = "py/1") -> None:
        """Connect; raise SidecarUnavailable, ControlRefused, or ValueError for an address that is none."""
        self.path = path
        self._timeout = timeout_seconds
        self._lock = threading.Lock()  # a TLS connection may not be read and written at the same time
        self._number = 0
        self._unpacker = Unpacker(ANSWER_BYTES_MAX)
        self._packets: deque[list[Any]] = deque()
        try:
            self._socket = connect_control(path, timeout_seconds)
        except OSError as error:
            raise self._lost(error) from None
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        try:
            self.ask("hello", {"version": VERSION, "client": client})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, once nothing is being sent."""
        with self._lock:
            self._socket.close()

    def ask(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask for a verb and wait for its answer; for the thread that reads. Raises ControlRefused,
        SidecarUnavailable."""
        number = self.send(verb, arguments)
        deadline = time.monotonic() + self._timeout
        while True:
            for index, packet in enumerate(self._packets):
                if packet[0] != number:
                    continue
                del self._packets[index]
                match packet:
                    case [_, "ok", dict(values)]:
                        return values
                    case [_, "error", {"code": str(code), "reason": str(reason)}]:
                        raise ControlRefused(code, reason)
                raise SidecarUnavailable(self.path, f"no answer of the control protocol: {str(packet)[:80]}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise SidecarUnavailable(self.path, f"no answer within {self._timeout:g} s")
            self._receive(left)

    def send(self, verb: str, arguments: dict[str, Any]) -> int:
        """Ask for a verb without waiting for its answer; its number. Raises SidecarUnavailable."""
        with self._lock:
            self._number += 1
            number = self._number
            try:
                self._socket.settimeout(self._timeout)
                self._socket.sendall(pack([number, verb, arguments]))
            except OSError as error:  # a timeout too: a part may have been sent
                self._socket.close()
                raise self._lost(error) from None
        return number

    def read(self, seconds: float) -> list[Push]:
        """Return the pushes received so far; wait at most ``seconds`` for the first one.

        A request of ``send`` that was refused comes as ``("error", {"code": …, "reason": …})``; other answers to them
        are dropped. Raises SidecarUnavailable when the connection is over.
        """
        if not self._packets:
            self._receive(seconds)
        found = []
        while self._packets:
            match self._packets.popleft():
                case [0, str(name), dict(content)] | [int(), "error" as name, dict(content)]:
                    found.append((name, content))
        return found

    def _receive(self, seconds: float) -> None:
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        if not pending and not self._poll.poll(seconds * 1000):
            return
        with self._lock:
            try:
                self._socket.settimeout(0)
                data = self._socket.recv(1 << 18)
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            except OSError as error:
                raise self._lost(error) from None
        if not data:
            raise SidecarUnavailable(self.path, "the sidecar closed the connection")
        self._packets += [packet for packet in self._unpacker.feed(data) if isinstance(packet, list) and packet]
        if self._unpacker.error is not None:
            raise self._lost(self._unpacker.error)

    def _lost(self, error: OSError | BadFrame) -> SidecarUnavailable:
        if isinstance(error, socket.timeout):
            return SidecarUnavailable(self.path, f"nothing within {self._timeout:g} s")
        return SidecarUnavailable(self.path, getattr(error, "strerror", None) or str(error))
