"""A program that publishes at a steady rate and writes down what it sends before it does, and every answer.

``python -m tests.chaos.publishing '{"name": …}'``. On its standard output, one JSON array a line: ``["s", ms, first,
last]`` before publications go out, ``["a", ms, [[number, epoch, seq], …], where]`` acknowledged, ``["r", ms, [[number,
code, reason], …]]`` refused, ``["h", ms, count]`` to be sent again, ``["d", ms, [number, …], [number, …]]`` sent again
by MQTT, and which of these to a session that did not know them, ``["e", ms, text]`` a lost connection. A pipe keeps the
lines when the program is killed. SIGTERM: publish nothing new, wait for all answers, end. SIGKILL: die.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from fastpath.client import PublishTimeout, RefusedMessage, connect
from fastpath.client.publisher.publisher import Publisher

from .lines import content_of, now_ms, say, subject_of
from .mqtt_publishing import MqttPublisher
from .reader import OPTIONS as IMPATIENT

AGAIN = ("not_ready", "unavailable")
"""Answers after which the same number goes again."""

WINDOW = 8
TICK_SECONDS = 0.01
ANSWER_SECONDS = 10.0
"""A server that does not answer for so long is left, as one that closed."""

GIVE_UP_SECONDS = 60.0
"""After SIGTERM: until what is not answered stays unknown."""


class Stopped(Exception):
    """SIGTERM came."""


class Raw:
    """Speaks protocol.md 6 with a socket, and resends by itself; nothing of the product's client is in it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.name: str = options["name"]
        self.addresses: list[str] = options["addresses"]
        self.subjects: list[str] = options["subjects"]
        self.die_after: int = options.get("die_after", 0)
        self.index = options.get("at", 0)
        self.sent: deque[tuple[int, list[int]]] = deque()
        self.queued: deque[list[int]] = deque([options["again"]] if options.get("again") else [])
        self.held: list[int] = []
        self.batch = 0
        self.batches = 0
        self.sock: socket.socket | None = None
        self.buffer = b""
        self.heard = 0.0

    @property
    def idle(self) -> bool:
        """Whether all is answered."""
        return not self.sent and not self.queued and not self.held

    def offer(self, numbers: list[int]) -> None:
        """Queue new publications."""
        self.queued.append(numbers)

    def turn(self, seconds: float) -> None:
        """Send what may be sent, and read for so long."""
        end = time.monotonic() + seconds
        try:
            if self.sock is None:
                self._open()
            if self.held and not self.sent:
                time.sleep(0.1)
                if len(self.addresses) > 1:
                    raise OSError("cannot store now: elsewhere")
                self.queued.appendleft(self.held)
                self.held = []
            while self.queued and not self.held and len(self.sent) < WINDOW:
                self._send(self.queued.popleft())
            while True:
                self._read(max(0.0, end - time.monotonic()))
                if time.monotonic() >= end:
                    break
            if self.sent and time.monotonic() - self.heard > ANSWER_SECONDS:
                raise OSError("no answer")
        except OSError as error:
            say("e", now_ms(), str(error) or type(error).__name__)
            self._lose()
            time.sleep(0.05)

    def close(self) -> None:
        """Disconnect."""
        if self.sock is not None:
            self.sock.close()

    def _lose(self) -> None:
        if self.sock is not None:
            self.sock.close()
        self.sock = None
        again = [number for _, numbers in self.sent for number in numbers]
        self.sent.clear()
        # In their order: what was held back was sent before what is in flight.
        again = sorted({*self.held, *again})
        self.held = []
        if again:
            self.queued.appendleft(again)
        self.index += 1

    def _open(self) -> None:
        host, _, port = self.addresses[self.index % len(self.addresses)].rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=2)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.batch = 0
        self.heard = time.monotonic()
        self._write(["hello", {"version": 1, "publisher": self.name, "client": "chaos"}])
        while True:
            for packet in self._packets(2.0):
                if packet[0] == "welcome":
                    return
                raise OSError(str(packet))

    def _write(self, packet: list[Any]) -> None:
        assert self.sock is not None
        data = msgspec.msgpack.encode(packet)
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.sendall(struct.pack(">I", len(data)) + data)

    def _send(self, numbers: list[int]) -> None:
        for start in range(0, len(numbers), 1000):
            part = numbers[start : start + 1000]
            self.batch += 1
            self.sent.append((self.batch, part))
            rows = [[subject_of(one, self.subjects), content_of(self.name, one), None, {"id": one}] for one in part]
            self._write(["batch", self.batch, rows])
            self.batches += 1
            if self.batches == self.die_after:
                os.kill(os.getpid(), signal.SIGKILL)

    def _packets(self, seconds: float) -> list[Any]:
        """What comes within the time; OSError when the connection ends, TimeoutError when nothing came."""
        assert self.sock is not None
        self.sock.settimeout(seconds or 0.0001)
        data = self.sock.recv(1 << 18)
        if not data:
            raise ConnectionResetError("closed by the server")
        self.heard = time.monotonic()
        self.buffer += data
        packets = []
        while len(self.buffer) >= 4 and len(self.buffer) >= 4 + (size := int.from_bytes(self.buffer[:4], "big")):
            packets.append(msgspec.msgpack.decode(self.buffer[4 : 4 + size]))
            self.buffer = self.buffer[4 + size :]
        return packets

    def _read(self, seconds: float) -> None:
        assert self.sock is not None
        if not select.select([self.sock], [], [], seconds)[0]:
            return
        for packet in self._packets(1):
            match packet:
                case ["ack", number, epoch, results]:
                    self._acknowledged(number, epoch, results)
                case ["close", code, reason]:
                    raise OSError(f"{code} {reason}")

    def _acknowledged(self, batch: int, epoch: int, results: list[Any]) -> None:
        expected, numbers = self.sent.popleft()
        if expected != batch or len(numbers) != len(results):
            raise OSError(f"acknowledgement {batch} where {expected} was due")
        stored, refused = [], []
        held = len(self.held)
        for number, result in zip(numbers, results, strict=True):
            if isinstance(result, int):
                stored.append([number, epoch, result])
            elif isinstance(result[0], int):
                stored.append([number, *result])
            elif result[0] in AGAIN:
                self.held.append(number)
            else:
                refused.append([number, *result])
        if len(self.held) > held:
            say("h", now_ms(), len(self.held) - held)
        if stored:
            say("a", now_ms(), stored, self.addresses[self.index % len(self.addresses)])
        if refused:
            say("r", now_ms(), refused)


class Library:
    """The product's publisher."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.name: str = options["name"]
        self.subjects: list[str] = options["subjects"]
        self.publisher = Publisher(
            options["addresses"], publisher=self.name, timeout_seconds=3, retry_seconds=600, on_settled=self._settled
        )
        self.pending: list[int] = []
        self.queued: list[int] = []
        self.stored: list[Any] = []
        self.refused: list[Any] = []

    @property
    def idle(self) -> bool:
        """Whether all is answered."""
        return not self.pending and not self.queued

    def offer(self, numbers: list[int]) -> None:
        """Queue new publications."""
        self.queued += numbers

    def turn(self, seconds: float) -> None:
        """Send what is queued and wait for its answers."""
        end = time.monotonic() + seconds
        try:
            if not self.pending and self.queued:
                self.pending, self.queued = self.queued[:1000], self.queued[1000:]
                rows = [[subject_of(one, self.subjects), content_of(self.name, one)] for one in self.pending]
                for start in range(0, len(rows), 10):
                    self.publisher.send_batch(rows[start : start + 10])
            if self.pending:
                self.publisher.flush(raise_refused=False)
                self.pending = []
        except PublishTimeout as error:
            say("e", now_ms(), str(error))
        if self.stored:
            say("a", now_ms(), self.stored, "")
        if self.refused:
            say("r", now_ms(), self.refused)
        self.stored, self.refused = [], []
        time.sleep(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Disconnect."""
        self.publisher.close()

    def _settled(self, index: int, outcome: Any) -> None:
        number = self.pending[index]
        if isinstance(outcome, RefusedMessage):
            self.refused.append([number, outcome.code, outcome.reason])
        else:
            self.stored.append([number, *outcome])


class Socket:
    """The product's client for programs, which publishes over a WebSocket."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.name: str = options["name"]
        self.subjects: list[str] = options["subjects"]
        urls = [f"ws://{address}/ws" for address in options["addresses"]]
        self.loop = asyncio.new_event_loop()
        self.client = connect(urls, **IMPATIENT, publish_queue_messages=100_000, publish_queue_bytes=1 << 26)
        self.loop.run_until_complete(self.client.__aenter__())
        self.queued: list[int] = []
        self.waiting: set[asyncio.Future[Any]] = set()
        self.stored: list[Any] = []
        self.refused: list[Any] = []

    @property
    def idle(self) -> bool:
        """Whether all is answered."""
        return not self.waiting and not self.queued

    def offer(self, numbers: list[int]) -> None:
        """Queue new publications."""
        self.queued += numbers

    def turn(self, seconds: float) -> None:
        """Let the client work."""
        self.loop.run_until_complete(self._work(seconds))
        if self.stored:
            say("a", now_ms(), self.stored, "")
        if self.refused:
            say("r", now_ms(), self.refused)
        self.stored, self.refused = [], []

    def close(self) -> None:
        """Disconnect."""
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()

    async def _work(self, seconds: float) -> None:
        queued, self.queued = self.queued, []
        for number in queued:
            future = self.client.enqueue(subject_of(number, self.subjects), content_of(self.name, number))
            self.waiting.add(future)
            future.add_done_callback(partial(self._settled, number))
        await asyncio.sleep(seconds)

    def _settled(self, number: int, future: asyncio.Future[Any]) -> None:
        self.waiting.discard(future)
        error = future.exception()
        if error is None:
            self.stored.append([number, *future.result()])
        else:
            code = str(getattr(error, "code", "") or type(error).__name__).lower()
            self.refused.append([number, code, str(error)])


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "raw": Raw,
    "library": Library,
    "socket": Socket,
    "mqtt": MqttPublisher,
    "mqtt-ws": partial(MqttPublisher, framed=True),
}


def main(options: dict[str, Any]) -> None:
    """Publish until told to stop."""
    stopping: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(time.monotonic()))
    pusher = KINDS[options["kind"]](options)
    rate, number = options["rate"], options.get("first", 1)
    begin, offered = time.monotonic(), 0
    while not stopping:
        due = int((time.monotonic() - begin) * rate) - offered
        if due > 0:
            due = min(due, int(rate) + 1)  # after a pause not all of it at once
            say("s", now_ms(), number, number + due - 1)
            pusher.offer(list(range(number, number + due)))
            number += due
            offered = int((time.monotonic() - begin) * rate)
        pusher.turn(TICK_SECONDS)
    while not pusher.idle and time.monotonic() < stopping[0] + GIVE_UP_SECONDS:
        pusher.turn(TICK_SECONDS)
    pusher.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
