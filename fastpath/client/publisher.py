"""A blocking client of the publisher port, for Spark executors, feeds and scripts (protocol.md 6)."""

from __future__ import annotations

import secrets
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from fastpath.core.errors import BadFrame, Close
from fastpath.core.messages import GUARANTEED, Fields, Value
from fastpath.core.packets import BATCH_MESSAGES_MAX, FRAME_BYTES_MAX, Unpacker, pack

from .backoff import Jitter
from .errors import ConnectionRejected, PublishTimeout, RefusedMessage, may_reconnect
from .window import Batch, Results, Settled, Window

VERSION = 1
CLIENT = "py/1"
_ENVELOPE_BYTES = 32
"""Room that a batch's frame needs beside its rows."""

PUBLISHER_MAX = 256
"""Characters of a publisher's name (protocol.md 6.2)."""

_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

_encode = msgspec.msgpack.Encoder().encode

Row = Sequence[Any]
"""``[subject, content, fields, meta]``; fields and meta may be None or left out (protocol.md 6.2)."""


class _Lost(Exception):
    """The connection is of no use any more; another may be."""


class Publisher:
    """Sends batches of messages, and again after a lost connection, until they are acknowledged.

    Each message has a number of this publisher, and keeps it when it is sent again, to whichever server: it is stored
    once (of quality standard, perhaps twice). ``url`` is ``"host:port"``, ``"tls://host:port"``, a comma list or a
    list of those: when one does not answer, or cannot store now, the next is tried. ``token`` is a text, or a callable
    that is asked at each connect. ``publisher`` is a label: what the server is told is this with a random part, so that
    no other publisher's messages are taken for these sent again. With ``first`` it is told as it is, and messages are
    numbered from ``first`` on: for a program that sends the same messages in the same order when it is run again
    within three minutes. ``window`` lowers the number of batches without acknowledgement below what the server allows.
    ``timeout_seconds`` bounds a connect and the wait for an answer, ``retry_seconds`` an outage. ``on_settled`` is
    called for each row of ``send_batch``: its index since the last ``flush()``, its position or why it was refused.
    Not for several threads at once.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        token: str | Callable[[], str] | None = None,
        publisher: str | None = None,
        window: int | None = None,
        timeout_seconds: float = 10,
        retry_seconds: float = 60,
        *,
        tls: ssl.SSLContext | None = None,
        first: int | None = None,
        on_settled: Settled | None = None,
    ) -> None:
        texts = url.split(",") if isinstance(url, str) else list(url)
        self._addresses = [_address(text.strip()) for text in texts]
        if not self._addresses:
            raise ValueError("a publisher needs an address, such as 127.0.0.1:8801")
        self._token = token
        self._publisher = _name(publisher, first)
        self._window_asked = window
        self._timeout = timeout_seconds
        self._retry = retry_seconds
        self._tls = tls
        self._window = Window(window or 1, first or 1, on_settled, alone=first is None)
        self._backoff = Jitter(0.1, 2)
        self._index = 0
        self._failures = 0
        self._trouble_since: float | None = None
        self._socket: socket.socket | None = None
        self._unpacker = Unpacker(FRAME_BYTES_MAX)
        self._out = b""
        self._welcome: dict[str, Any] = {}
        self._alive_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()

    @property
    def user(self) -> str:
        """The user that the server took the token for; empty before the first connection, and for anonymous."""
        return str(self._welcome.get("user", ""))

    def connect(self) -> None:
        """Connect now instead of at the first message; raises ConnectionRejected, PublishTimeout."""
        self._pump(lambda: bool(self._welcome) and self._socket is not None)

    def send_batch(self, rows: Sequence[Row]) -> None:
        """Send rows; returns when they are on their way, with at most a window of batches not acknowledged.

        What came of each is told by ``flush()``. Raises ConnectionRejected when the server does not want this
        publisher, PublishTimeout after an outage of ``retry_seconds``; a later ``flush()`` tries again.
        """
        self._submit(rows)
        self._pump(lambda: self._window.all_sent and not self._out)

    def flush(self, raise_refused: bool = True) -> Results:
        """Wait until everything is acknowledged and tell what came of it since the last flush.

        Raises the first RefusedMessage if there is one, unless ``raise_refused`` is false; besides as
        ``send_batch``.
        """
        self._pump(lambda: self._window.idle)
        results = self._window.collect()
        if raise_refused and results.refused:
            raise results.refused[0]
        return results

    def publish(
        self,
        subject: str,
        content: Value,
        fields: Fields | None = None,
        *,
        retained: bool = True,
        qos: str = GUARANTEED,
        reply_to: str | None = None,
        closure: str | None = None,
        as_of: str | int | None = None,
    ) -> int:
        """Publish one message and wait; its sequence number, 0 for standard quality. Raises RefusedMessage too."""
        meta = _meta(retained, qos, reply_to, closure, as_of)
        rows = _encode([[subject, content, fields or None, meta] if meta else [subject, content, fields or None]])
        if len(rows) > FRAME_BYTES_MAX - _ENVELOPE_BYTES:
            raise _too_large(0, len(rows))
        batch: Batch = self._window.submit(rows, 1, alone=True)
        self._pump(lambda: batch.done)
        if batch.refused is not None:
            raise batch.refused
        return batch.seq

    def close(self) -> None:
        """Close the connection; what is not acknowledged yet may or may not arrive."""
        connection, self._socket = self._socket, None
        self._out = b""
        if connection is not None:
            connection.close()

    def _submit(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        data = _encode(rows) if len(rows) <= BATCH_MESSAGES_MAX else b""
        if data and len(data) <= FRAME_BYTES_MAX - _ENVELOPE_BYTES:
            self._window.submit(data, len(rows))
        elif len(rows) == 1:
            results = self._window.results
            results.refuse(_too_large(results.messages, len(data)))
            results.messages += 1
        else:
            half = len(rows) // 2
            self._submit(rows[:half])
            self._submit(rows[half:])

    def _pump(self, done: Callable[[], bool]) -> None:
        """Read and write until ``done``; a lost connection is replaced in here."""
        self._alive_at = time.monotonic()
        while not done():
            if self._window.holds:
                if self._window.unavailable and len(self._addresses) > 1:
                    self._next(self._window.why_held)
                    continue
                self._pause(self._window.why_held)
                self._window.release()
            try:
                if self._socket is None:
                    self._open()
                self._step()
            except ConnectionRejected:
                self._drop()
                raise
            except (_Lost, OSError, BadFrame) as error:
                self._next(str(error) or type(error).__name__)

    def _next(self, why: str) -> None:
        """To the next address, at once; only a round through all of them is followed by a pause."""
        self._drop()
        self._index = (self._index + 1) % len(self._addresses)
        self._failures += 1
        self._pause(why, self._failures % len(self._addresses) == 0)

    def _drop(self) -> None:
        self.close()
        self._window.rewind()

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
        self._unpacker = Unpacker(FRAME_BYTES_MAX)
        self._welcome = {}
        self._alive_at = time.monotonic()
        self._socket = connection

    def _wrap(self, connection: socket.socket, host: str) -> socket.socket:
        context = self._tls or ssl.create_default_context()
        return context.wrap_socket(connection, server_hostname=host)

    def _step(self) -> None:
        """One wait for the socket, one read and one write."""
        connection = self._socket
        assert connection is not None
        if not self._out and self._welcome:
            self._out = self._window.take() or b""
        if self._received(connection):
            return
        if self._out and self._sent(connection):
            return
        waiter = select.poll()
        waiter.register(connection, select.POLLIN | (select.POLLOUT if self._out else 0))
        left = self._alive_at + self._timeout - time.monotonic()
        if left <= 0 or not waiter.poll(left * 1000):
            raise _Lost(f"no answer within {self._timeout:g} s")

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
            raise _Lost("the server closed the connection")
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
                allowed = int(welcome.get("window", 1))
                self._window.rewind(min(self._window_asked or allowed, allowed))
                if self._window.idle:
                    self._recovered()
            case ["ack", int(number), int(epoch), list(results)]:
                if self._window.acknowledge(number, epoch, results):
                    self._recovered()
            case ["close", int(code), str(reason)]:
                self._refused(code, reason)
            case [str(name), *_] if name not in ("welcome", "ack", "close"):
                pass  # a frame of a later version of the protocol
            case _:
                raise BadFrame(f"unexpected: {str(frame)[:80]}")

    def _refused(self, code: int, reason: str) -> None:
        renewable = code != Close.TOKEN_EXPIRED or callable(self._token)
        if may_reconnect(code) and renewable:
            raise _Lost(f"{code} {reason}")
        raise ConnectionRejected(code, reason)


def _name(label: str | None, first: int | None) -> str:
    """What the server is told; ValueError for a name that it would not take, or numbers that it would not."""
    if first is not None:
        if not label or not 1 <= first < 1 << 53:
            raise ValueError("first is a number from 1 on, and needs the name of a publisher")
        name = label
    else:
        name = f"{label}:{secrets.token_hex(12)}" if label else secrets.token_hex(12)
    if len(name) > PUBLISHER_MAX:
        raise ValueError(f"the name of a publisher has at most {PUBLISHER_MAX} characters")
    return name


def _meta(
    retained: bool, qos: str, reply_to: str | None, closure: str | None, as_of: str | int | None
) -> dict[str, Any]:
    """The meta of a row: what differs from the default (protocol.md 6.2)."""
    meta: dict[str, Any] = {} if retained else {"retained": False}
    if qos != GUARANTEED:
        meta["qos"] = qos
    for name, value in (("reply_to", reply_to), ("closure", closure), ("as_of", as_of)):
        if value is not None:
            meta[name] = value
    return meta


def _too_large(index: int, size: int) -> RefusedMessage:
    return RefusedMessage(index, "too_large", f"{size} bytes do not fit a frame of {FRAME_BYTES_MAX} bytes")


def _address(text: str) -> tuple[str, int, bool]:
    """Host, port, and whether to use TLS; ValueError when the text is no address."""
    scheme, _, rest = text.rpartition("://")
    if scheme not in ("", "tcp", "tls", "publishers", "publishers+tls"):
        raise ValueError(f"{text!r} is no address of a publisher port: write host:port, or tls://host:port")
    host, _, port = rest.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{text!r} is no address of a publisher port: write host:port, such as 127.0.0.1:8801")
    return host.strip("[]"), int(port), scheme.endswith("tls")
