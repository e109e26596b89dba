"""Raw peers of the client and publisher ports, and what the tests ask of the process behind them.

They speak the protocols with nothing but sockets, so that they can break them on purpose and share no fault with the
code under test.
"""

from __future__ import annotations

import base64
import contextlib
import os
import resource
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from tests.support.promises import kept
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Ended(Exception):
    """The server ended the connection; ``code`` 0 without a close frame."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Socket:
    """A TCP connection, or one to a unix socket's path, with a deadline for every wait.

    ``source`` is the address that it comes from, ``first`` what it says before TLS or anything else.
    """

    def __init__(
        self,
        address: str,
        *,
        tls: ssl.SSLContext | None = None,
        receive_bytes: int = 0,
        source: str = "",
        first: bytes = b"",
    ) -> None:
        host, _, port = address.removeprefix("ws://").removesuffix("/ws").rpartition(":")
        host = host.strip("[]")
        unix = address.startswith("/")
        family = socket.AF_UNIX if unix else socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sock: socket.socket = socket.socket(family)
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(PATIENCE_SECONDS)
        try:
            if source:
                self.sock.bind((source, 0))
            if unix:
                self.sock.connect(address)
            else:
                self.sock.connect((host, int(port)))
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock.sendall(first)
            if tls is not None:
                self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        except BaseException:
            self.sock.close()
            raise
        self.buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.sendall(data)

    def read(self, count: int) -> bytes:
        """Exactly so many bytes; Ended when the connection ends before."""
        self._collect(lambda chunks, size: size >= count)
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_to(self, mark: bytes) -> bytes:
        """What comes before the mark, which is passed over; Ended when the connection ends before."""

        def has_mark(chunks: list[bytes], size: int) -> bool:
            del size
            return mark in (chunks[-1] if len(chunks) == 1 else chunks[-2][1 - len(mark) :] + chunks[-1])

        if mark not in self.buffer:
            self._collect(has_mark)
        data, _, self.buffer = self.buffer.partition(mark)
        return data

    def _collect(self, is_enough: Callable[[list[bytes], int], bool]) -> None:
        """Read until it is enough, all of it told, the newest last; what has come by then is in the buffer."""
        chunks, size = [self.buffer], len(self.buffer)
        try:
            while not is_enough(chunks, size):
                chunk = self._receive()
                if not chunk:
                    raise Ended(0, "")
                chunks.append(chunk)
                size += len(chunk)
        finally:
            self.buffer = b"".join(chunks)

    def rest(self) -> bytes:
        """All that comes until the connection ends."""
        while chunk := self._receive():
            self.buffer += chunk
        data, self.buffer = self.buffer, b""
        return data

    def silent(self, seconds: float = 0.0) -> bool:
        """Whether nothing waits to be read, and nothing comes for so long."""
        if self.buffer:
            return False
        pending = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        if not pending and not select.select([self.sock], [], [], seconds)[0]:
            return True
        if isinstance(self.sock, ssl.SSLSocket):  # what came may be a part of a record, or nothing of the program's
            self.sock.settimeout(0)
            try:
                self.buffer += self._receive()
            except ssl.SSLWantReadError:
                return True
            finally:
                self.sock.settimeout(PATIENCE_SECONDS)
        return False

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(1 << 18)
        except (ConnectionError, BrokenPipeError):
            return b""


class WireClient(Socket):
    """A WebSocket client; ``form`` None offers no subprotocol. Where another wire is ``spoken`` it is a client of that
    (tests/support/edge/lines.py)."""

    spoken: ClassVar[type[WireClient] | None] = None

    def __new__(cls, *given: object, **named: object) -> Self:
        """Of the kind that is spoken."""
        del given, named
        return object.__new__(cls.spoken or cls)  # type: ignore[return-value]

    def __init__(
        self,
        where: Sidecar | str,
        form: str | None = None,
        *,
        path: str = "/ws",
        tls: ssl.SSLContext | None = None,
        receive_bytes: int = 0,
        headers: str = "",
        source: str = "",
        first: bytes = b"",
    ) -> None:
        url = where if isinstance(where, str) else where.client_url
        super().__init__(url, tls=tls, receive_bytes=receive_bytes, source=source, first=first)
        self.form = form or "json"
        offer = f"Sec-WebSocket-Protocol: fastpath.v1.{form}\r\n" if form else ""
        self.send(request(path, offer + headers))
        self.head = b""
        try:
            while not self.head.endswith(b"\r\n\r\n"):
                self.head += self.read(1)
            assert self.head.startswith(b"HTTP/1.1 101 "), self.head
        except BaseException:
            self.sock.close()
            raise
        self.subjects: dict[int, str] = {}
        self.number = 0

    def frame(self, opcode: int, payload: bytes, *, final: bool = True) -> None:
        """Send one frame, masked with zeros."""
        self.send(masked(opcode, payload, final=final))

    def say(self, op: Any, **keys: Any) -> int:
        """Send a command with an id of its own; the id."""
        self.number += 1
        command = {"op": op, "id": self.number} | keys
        if self.form == "json":
            self.frame(TEXT, msgspec.json.encode(command))
        else:
            self.frame(BINARY, msgspec.msgpack.encode(command))
        return self.number

    def next_frame(self) -> tuple[int, bytes]:
        """The next frame as it is; Ended when the connection ends."""
        first, length = self.read(2)
        if length > 125:
            length = int.from_bytes(self.read(2 if length == 126 else 8))
        return first & 0x0F, self.read(length)

    def next(self) -> Any:
        """The next command, answer or message; raises Ended with the code of a close frame."""
        while True:
            opcode, payload = self.next_frame()
            if opcode == CLOSE:
                raise Ended(int.from_bytes(payload[:2]), payload[2:].decode())
            if opcode == PING:
                self.frame(PONG, payload)
            elif opcode != PONG:
                break
        value = (msgspec.json if self.form == "json" else msgspec.msgpack).decode(payload)
        if isinstance(value, dict):
            for result in value.get("results", ()):
                if "sid" in result:
                    self.subjects[result["sid"]] = result["subject"]
        return value

    def answer(self, op: str, number: int | None = None) -> dict[str, Any]:
        """The next answer of that kind; what comes before is skipped."""
        while True:
            value = self.next()
            if isinstance(value, dict) and value["op"] == op and number in (None, value.get("id")):
                return value

    def ask(self, op: str, answer: str, **keys: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        return self.answer(answer, self.say(op, **keys))

    def subscribe(self, *subjects: str, **keys: Any) -> list[dict[str, Any]]:
        """Subscribe; the results."""
        return list(self.ask("subscribe", "subscribed", subjects=list(subjects), **keys)["results"])

    def message(self) -> list[Any]:
        """The next message."""
        while True:
            value = self.next()
            if isinstance(value, list):
                return value

    def texts(self, count: int) -> list[Any]:
        """The contents of the next messages."""
        return [self.message()[3] for _ in range(count)]

    def quiet(self) -> bool:
        """Whether nothing has been sent to this client that it has not read: a ping comes back at once."""
        number = self.say("ping")
        value = self.next()
        return isinstance(value, dict) and value["op"] == "pong" and value["id"] == number

    def closed(self) -> tuple[int, str]:
        """The code and the name with which the server closes; everything before is read and dropped."""
        try:
            while True:
                self.next()
        except Ended as end:
            with contextlib.suppress(ConnectionError):
                self.frame(CLOSE, b"")
            return end.code, end.reason.partition(":")[0]


class WirePublisher(Socket):
    """A peer of the publisher port; says hello by itself unless told not to."""

    def __init__(
        self,
        where: Sidecar | str,
        token: str = "",
        *,
        hello: bool = True,
        publisher: str = "",
        tls: ssl.SSLContext | None = None,
        receive_bytes: int = 0,
        source: str = "",
        first: bytes = b"",
    ) -> None:
        url = where if isinstance(where, str) else where.publisher_url
        super().__init__(url, tls=tls, receive_bytes=receive_bytes, source=source, first=first)
        self.batch = 0
        if hello:
            self.packet("hello", {"version": 1, "token": token, "publisher": publisher})
            self.welcome = self.next()[1]

    def packet(self, *parts: Any) -> None:
        """Send one frame."""
        self.send(packed(*parts))

    def next(self) -> list[Any]:
        """The next frame; Ended when the server says close, or the connection ends."""
        packet = msgspec.msgpack.decode(self.read(int.from_bytes(self.read(4))))
        if packet[0] == "close":
            raise Ended(packet[1], packet[2])
        return list(packet)

    def publish(self, *rows: Any) -> list[Any]:
        """Publish a batch; the results."""
        self.batch += 1
        self.packet("batch", self.batch, list(rows))
        kind, number, _, results = self.next()
        assert (kind, number) == ("ack", self.batch)
        return list(results)

    def closed(self) -> tuple[int, str]:
        """The code and the reason with which the server closes; what comes before is dropped."""
        try:
            while True:
                self.next()
        except Ended as end:
            return end.code, end.reason


def request(path: str = "/ws", headers: str = "") -> bytes:
    """The head of an opening handshake."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
    ).encode("latin-1")


def masked(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    """A client's frame with a mask of zeros."""
    first = opcode | (0x80 if final else 0)
    size = len(payload)
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0xFE, size)
    else:
        head = struct.pack(">BBQ", first, 0xFF, size)
    return head + bytes(4) + payload


def packed(*parts: Any) -> bytes:
    """A packet of the publisher port or control socket."""
    body = msgspec.msgpack.encode(parts)
    return len(body).to_bytes(4, "big") + body


def basic(text: str) -> str:
    """Base64."""
    return base64.b64encode(text.encode()).decode()


def resident_bytes(pid: int) -> int:
    """The memory that a process uses now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def open_files(pid: int) -> int:
    """How many descriptors a process holds, but for what it reads of ``/proc`` just now, as it does each second."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found += not os.readlink(f"/proc/{pid}/fd/{name}").startswith("/proc/")
    return found


@contextlib.contextmanager
def undisturbed(sidecar: Sidecar) -> Iterator[None]:
    """Another client and another publisher of the same sidecar lose nothing, in order, while something bad happens."""
    with WireClient(sidecar) as client, WirePublisher(sidecar) as publisher:
        [result] = client.subscribe("/quiet/one")
        first = result["seq"]
        if result.get("messages"):
            client.message()
        publisher.publish(["/quiet/one", "before"])
        yield
        publisher.publish(["/quiet/one", "after"])
        got = [(message[1], message[3]) for message in (client.message(), client.message())]
        kept(got == [(first + 1, "before"), (first + 2, "after")], got)
        assert client.quiet()


def wait_gone(sidecar: Sidecar, files: int) -> None:
    """Wait until the sidecar holds no more descriptors than so many."""
    until(lambda: open_files(sidecar.pid) <= files)
