"""A blocking connection to the publisher port, replaced when it is lost; what it carries is others' (protocol.md 6)."""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from fastpath.core.protocol.errors import BadFrame, Close
from fastpath.core.protocol.packets import ANSWER_BYTES_MAX, Unpacker, pack

from ..backoff import Jitter
from ..errors import ClientError, ConnectionRejected, PublishTimeout, may_reconnect

VERSION = 1
CLIENT = "py/1"

_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionLost(Exception):
    """The loss of a connection that is of no use any more; another may be."""


class PortConnection(ABC):
    """A connection to one of several servers, made again, or to the next one, after a loss; a subclass says what goes
    over it.

    ``url`` is ``"host:port"``, ``"tls://host:port"``, a comma list or a list of those. ``token`` is a text, or a
    callable that is asked at each connect. ``publisher`` is the name in ``hello``. ``timeout_seconds`` bounds a connect
    and the wait for an answer, ``retry_seconds`` an outage. Not for several threads at once.

    A subclass gives bytes to send (``_take``), takes what the server answers (``_answer``) and puts back what was on
    the wire when the connection is lost (``_rewind``); its methods wait with ``_pump``.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        token: str | Callable[[], str] | None,
        publisher: str | None,
        timeout_seconds: float,
        retry_seconds: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        texts = url.split(",") if isinstance(url, str) else list(url)
        self._addresses = [address(text.strip()) for text in texts]
        if not self._addresses:
            raise ValueError("a publisher needs an address, such as 127.0.0.1:8801")
        self._token = token
        self._publisher = publisher
        self._process = os.getpid()
        self._timeout = timeout_seconds
        self._retry = retry_seconds
        self._tls = tls
        self._backoff = Jitter(0.1, 2)
        self._index = 0
        self._failures = 0
        self._trouble_since: float | None = None
        self._socket: socket.socket | None = None
        self._unpacker = Unpacker(ANSWER_BYTES_MAX)
        self._out = b""
        self._welcome: dict[str, Any] = {}
        self._alive_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def user(self) -> str:
        """The user that the server took the token for; empty before the first connection, and for anonymous."""
        return str(self._welcome.get("user", ""))

    def connect(self) -> None:
        """Connect now instead of with the first frame; raises ConnectionRejected, PublishTimeout."""
        self._pump(lambda: bool(self._welcome) and self._socket is not None)

    def close(self) -> None:
        """Close the connection; what is not acknowledged yet may or may not arrive."""
        connection, self._socket = self._socket, None
        self._out = b""
        if connection is not None:
            connection.close()

    @abstractmethod
    def _take(self) -> bytes | None:
        """Return the next frame to send; None while there is none."""

    @abstractmethod
    def _answer(self, frame: list[Any]) -> bool:
        """Take in a frame; answers whether it is a sign that the trouble is over. Raises BadFrame, Lost."""

    @abstractmethod
    def _rewind(self) -> None:
        """Queue what has no answer again, for the next connection: this one is lost."""

    def _welcomed(self) -> bool:
        """Return True if the connection counts as good now that the server has let us in; ``_welcome`` holds its
        words."""
        return True

    def _held(self) -> tuple[str, bool] | None:
        """Return the reason for a pause and whether another server may do better; None when frames can be sent."""
        return None

    @abstractmethod
    def _released(self) -> None:
        """Go on after the pause that ``_held`` asked for."""

    def _pump(self, done: Callable[[], bool]) -> None:
        """Read and write until ``done``; a lost connection is replaced in here."""
        if self._process != os.getpid():
            self._begin_anew()
        self._alive_at = time.monotonic()
        while not done():
            held = self._held()
            if held is not None:
                why, elsewhere = held
                if elsewhere and len(self._addresses) > 1:
                    self._next(why)
                    continue
                self._pause(why)
                self._released()
            try:
                if self._socket is None:
                    self._open()
                self._step()
            except ConnectionRejected:
                self._drop()
                raise
            except (ConnectionLost, OSError, BadFrame) as error:
                self._next(str(error) or type(error).__name__)

    def _begin_anew(self) -> None:
        """Begin in the child of a fork: what the other process has used is its own, with the numbers that went over
        it."""
        if self._socket is not None or self._welcome:
            raise ClientError("this publisher was used before this process was forked: make one in each process")
        self._process = os.getpid()

    def _next(self, why: str) -> None:
        """Go to the next address, at once; only a round through all addresses is followed by a pause."""
        self._drop()
        self._index = (self._index + 1) % len(self._addresses)
        self._failures += 1
        self._pause(why, self._failures % len(self._addresses) == 0)

    def _drop(self) -> None:
        self.close()
        self._rewind()

    def _pause(self, why: str, wait: bool = True) -> None:
        """Wait before the next attempt; PublishTimeout when the trouble has lasted for ``retry_seconds``."""
        now = time.monotonic()
        if self._trouble_since is None:
            self._trouble_since = now
        left = self._trouble_since + self._retry - now
        if left <= 0:
            self._trouble_since = None
            names = ", ".join(f"{host}:{port}" for host, port, _ in self._addresses)
            raise PublishTimeout(f"nothing was acknowledged for {self._retry:g} s by the publisher port {names}: {why}")
        if wait:
            time.sleep(min(left, self._backoff.next_seconds()))

    def _recovered(self) -> None:
        self._trouble_since = None
        self._failures = 0
        self._backoff.reset()

    def _open(self) -> None:
        host, port, tls = self._addresses[self._index]
        connection = socket.create_connection((host, port), timeout=self._timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls or self._tls is not None:
                connection = self._wrap(connection, host)
            connection.setblocking(False)
            token = self._token() if callable(self._token) else self._token
        except BaseException:
            connection.close()
            raise
        hello = {"version": VERSION, "token": token, "publisher": self._publisher, "client": CLIENT}
        self._out = pack(["hello", {name: value for name, value in hello.items() if value is not None}])
        self._unpacker = Unpacker(ANSWER_BYTES_MAX)
        self._welcome = {}
        self._alive_at = time.monotonic()
        self._socket = connection

    def _wrap(self, connection: socket.socket, host: str) -> socket.socket:
        context = self._tls or ssl.create_default_context()
        return context.wrap_socket(connection, server_hostname=host)

    def _step(self) -> None:
        """Wait for the socket once, then read and write once."""
        connection = self._socket
        assert connection is not None
        if not self._out and self._welcome:
            self._out = self._take() or b""
        if self._received(connection):
            return
        if self._out and self._sent(connection):
            return
        waiter = select.poll()
        waiter.register(connection, select.POLLIN | (select.POLLOUT if self._out else 0))
        left = self._alive_at + self._timeout - time.monotonic()
        if left <= 0 or not waiter.poll(left * 1000):
            raise ConnectionLost(f"no answer within {self._timeout:g} s")

    def _sent(self, connection: socket.socket) -> bool:
        try:
            count = connection.send(self._out)
        except _WAITS:
            return False
        self._alive_at = time.monotonic()
        self._out = self._out[count:]
        return True

    def _received(self, connection: socket.socket) -> bool:
        try:
            data = connection.recv(1 << 18)
        except _WAITS:
            return False
        if not data:
            raise ConnectionLost("the server closed the connection")
        self._alive_at = time.monotonic()
        for frame in self._unpacker.feed(data):
            self._answered(frame)
        if self._unpacker.error is not None:
            if self._welcome:
                raise self._unpacker.error
            raise ConnectionRejected(Close.BAD_MESSAGE, f"no publisher port: {self._unpacker.error}")
        return True

    def _answered(self, frame: list[Any]) -> None:
        match frame:
            case ["welcome", dict(welcome)]:
                if welcome.get("version") != VERSION:
                    raise ConnectionRejected(Close.BAD_VERSION, f"the server speaks version {welcome.get('version')}")
                self._welcome = welcome
                if self._welcomed():
                    self._recovered()
            case ["close", int(code), str(reason)]:
                self._refused(code, reason)
            case [str(name), *_] if name not in ("welcome", "close"):
                if self._answer(frame):
                    self._recovered()
            case _:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")

    def _refused(self, code: int, reason: str) -> None:
        renewable = code != Close.TOKEN_EXPIRED or callable(self._token)
        if may_reconnect(code) and renewable:
            raise ConnectionLost(f"{code} {reason}")
        raise ConnectionRejected(code, reason)


def address(text: str) -> tuple[str, int, bool]:
    """Return host, port, and True for TLS; raise ValueError when the text is no address."""
    scheme, _, rest = text.rpartition("://")
    if scheme not in ("", "tcp", "tls", "publishers", "publishers+tls"):
        raise ValueError(f"{text!r} is no address of a publisher port: write host:port, or tls://host:port")
    host, _, port = rest.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{text!r} is no address of a publisher port: write host:port, such as 127.0.0.1:8801")
    return host.strip("[]"), int(port), scheme.endswith("tls")
