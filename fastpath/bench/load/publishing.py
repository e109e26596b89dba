"""A publisher's connection: publications go out in one write, answers are taken in, nothing is queued without bound."""

from __future__ import annotations

import secrets
import select
import time
from collections.abc import Sequence
from typing import Any

from fastpath.core.protocol.packets import BATCH_MESSAGES_MAX, Unpacker, pack

from .dialects import ENCODERS, Dialect, Items
from .latency import LatencyHistogram
from .sockets import BenchError, Sockets
from .swarm import Swarm

READY_SECONDS_MAX = 15
BACKLOG_BYTES_MAX = 1 << 19
ANSWER_BYTES_MAX = 4 << 20


class LoadPublisher:
    """One connection that publishes in its server's dialect; it shares the swarm's loop for what comes back."""

    def __init__(self, swarm: Swarm, dialect: Dialect, sockets: Sockets, number: int, subjects: Sequence[int]) -> None:
        self.dialect = dialect
        self._swarm = swarm
        self._sockets = sockets
        self._backlog = b""
        self.fd = sockets.open(number)
        _wait(self.fd, select.EPOLLOUT)
        fault = sockets.fault(self.fd)
        if fault:
            raise BenchError(f"the publisher cannot connect to {sockets.address[0]}:{sockets.address[1]}: {fault}")
        while not sockets.shaken(self.fd):
            _wait(self.fd, select.EPOLLIN)
        self._greet(number, dialect.subject(subjects[0]) if subjects else "")
        swarm.special[self.fd] = self._readable
        swarm.epoll.register(self.fd, select.EPOLLIN)

    @property
    def room(self) -> bool:
        """True if more may be published now."""
        return len(self._backlog) < BACKLOG_BYTES_MAX

    @property
    def quiet(self) -> bool:
        """True if all has been written, and acknowledged where that is done."""
        return not self._backlog

    @property
    def blocked(self) -> bool:
        """True if something waits to be written."""
        return bool(self._backlog)

    def publish(self, items: Items) -> None:
        """Publish in order, in one write."""
        self.write(self.dialect.publications(items))

    def flush(self) -> None:
        """Write what waits."""
        if self._backlog:
            data, self._backlog = self._backlog, b""
            self.write(data)

    def close(self) -> None:
        """Close the connection."""
        self._swarm.special.pop(self.fd, None)
        self._swarm.epoll.unregister(self.fd)
        self._sockets.close(self.fd)

    def write(self, data: bytes) -> None:
        """Write bytes, or keep what the socket does not take at once."""
        if self._backlog:
            self._backlog += data
            return
        try:
            sent = self._sockets.write(self.fd, data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise BenchError(f"the server closed the publisher's connection: {error.strerror}") from None
        if sent < len(data):
            self._backlog = data[sent:]

    def _greet(self, number: int, subject: str) -> None:
        opening = self.dialect.opening([], subject)
        if opening:
            self._sockets.write_all(self.fd, opening)
        if self.dialect.upgrades:
            head = self._await(b"\r\n\r\n")
            if b" 101 " not in head[:16]:
                raise BenchError(f"the server refused the publisher: {head[:120].decode(errors='replace')!r}")
        preamble = self.dialect.preamble(number, [])
        if preamble:
            self._sockets.write_all(self.fd, preamble)

    def _await(self, wanted: bytes) -> bytes:
        end = time.monotonic() + READY_SECONDS_MAX
        data = b""
        while wanted not in data:
            if time.monotonic() > end:
                raise BenchError(
                    f"the server did not answer the publisher within {READY_SECONDS_MAX} s: {data[:200]!r}"
                )
            _wait(self.fd, select.EPOLLIN)
            try:
                more = self._sockets.read(self.fd, 65536)
            except BlockingIOError:
                continue
            if not more:
                raise BenchError(f"the server closed the publisher's connection: {data[:200]!r}")
            data += more
        return data

    def _readable(self, fd: int) -> int:
        try:
            data = self._sockets.read(fd, 65536)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BenchError(f"the publisher's connection broke: {error.strerror}") from None
        if not data:
            raise BenchError("the server closed the publisher's connection")
        self._answered(data)
        return 0

    def _answered(self, data: bytes) -> None:
        """Read what the server says to a publisher; most say nothing."""


class PortLoadPublisher(LoadPublisher):
    """Fastpath's publisher port (protocol.md 6): a batch a write, and at most ``window`` without acknowledgement.

    Every publication is numbered, as the client libraries do it, so that the server looks whether it has it already.
    """

    def __init__(self, swarm: Swarm, dialect: Dialect, sockets: Sockets, number: int, token: str) -> None:
        self._token = token
        self._unpacker = Unpacker(ANSWER_BYTES_MAX)
        self._batch = 0
        self._unanswered = 0
        self.window = 1
        self._sent: dict[int, int] = {}
        self._number = 1
        self.acknowledged = 0
        self.latency = LatencyHistogram()
        """Latency from a batch to its acknowledgement."""
        super().__init__(swarm, dialect, sockets, number, [])

    @property
    def room(self) -> bool:
        return self._unanswered < self.window and super().room

    @property
    def quiet(self) -> bool:
        return not self._unanswered and super().quiet

    def publish(self, items: Items) -> None:
        for at in range(0, len(items), BATCH_MESSAGES_MAX):
            some = items[at : at + BATCH_MESSAGES_MAX]
            rows: list[Sequence[Any]] = [(subject, payload.decode("ascii")) for subject, payload in some]
            if self.dialect.fields:
                rows = [(*row, self.dialect.fields) for row in rows]
            self._publish_rows(rows)

    def _publish_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        self._batch += 1
        body = ENCODERS["msgpack"](("batch", self._batch, rows, self._number))
        self._unanswered += 1
        self._sent[self._batch] = time.monotonic_ns()
        self._number += len(rows)
        self.write(len(body).to_bytes(4) + body)

    def _greet(self, number: int, subject: str) -> None:
        publisher = f"bench-{number}-{secrets.token_hex(8)}"
        hello = {"version": 1, "token": self._token, "publisher": publisher, "client": "bench/1"}
        self._sockets.write_all(self.fd, pack(["hello", hello]))
        answer: list[Any] = []
        while not answer:
            answer = self._unpacker.feed(self._await(b""))
        match answer[0]:
            case ["welcome", {"window": int(window)}]:
                self.window = window
            case other:
                raise BenchError(f"the server refused the publisher: {other}")

    def _await(self, wanted: bytes) -> bytes:
        if wanted:
            return super()._await(wanted)
        _wait(self.fd, select.EPOLLIN)
        return self._sockets.read(self.fd, 65536)

    def _answered(self, data: bytes) -> None:
        for packet in self._unpacker.feed(data):
            match packet:
                case ["ack", int(number), int(), list(results)]:
                    self._unanswered -= 1
                    self.acknowledged += len(results)
                    self.latency.add((time.monotonic_ns() - self._sent.pop(number)) // 1000)
                    refused = [result for result in results if type(result) is not int]
                    if refused:
                        raise BenchError(f"the server refused a publication: {refused[0]}")
                case ["close", code, reason]:
                    raise BenchError(f"the server closed the publisher's connection: {code} {reason}")


def _wait(fd: int, event: int) -> None:
    with select.epoll() as epoll:
        epoll.register(fd, event)
        if not epoll.poll(READY_SECONDS_MAX):
            raise BenchError(f"no answer to the publisher within {READY_SECONDS_MAX} s")
