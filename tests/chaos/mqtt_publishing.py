"""A publisher that speaks MQTT 5 with QoS 1: it uses few packet ids, hangs up without waiting for its acknowledgements,
and sends again what was not acknowledged."""

from __future__ import annotations

import heapq
import random
import time
from collections import deque
from typing import Any

from . import mqtt_wire as wire
from .lines import content_of, now_ms, say, subject_of
from .mqtt_wire import DISCONNECT, PUBACK, Connection, Packet

WINDOW = 40
"""Publications under way, and packet ids: each is used anew as soon as it is free, the lowest one first."""

HANG_UP_SECONDS = (0.7, 2.5)
"""Between two connections that are given up with publications under way."""

OPEN_SECONDS = 3.0
ANSWER_SECONDS = 10.0
"""As in publishing.py."""


class MqttPublisher:
    """What publishing.py runs; ``framed``: over WebSockets of client ports."""

    def __init__(self, options: dict[str, Any], *, framed: bool = False) -> None:
        self.name: str = options["name"]
        self.addresses: list[str] = options["addresses"]
        self.subjects: list[str] = options["subjects"]
        self.index = 0
        self.queued: deque[int] = deque(options.get("again", []))
        self.flying: dict[int, int] = {}
        """Number by packet id, in the order in which they were sent."""
        self._lives: dict[str, int] = {}
        self._session = ("", 0)
        self._told: dict[int, set[tuple[str, int]]] = {}
        """The sessions to which what is under way was sent, by number: each node has its own, and may forget it."""
        self._free = list(range(1, WINDOW + 1))
        self._framed = framed
        self._connection: Connection | None = None
        self._heard = 0.0
        self._hangs_up = time.monotonic() + random.uniform(*HANG_UP_SECONDS)

    @property
    def idle(self) -> bool:
        """Whether all is answered."""
        return not self.flying and not self.queued

    def offer(self, numbers: list[int]) -> None:
        """Queue new publications."""
        self.queued += numbers

    def turn(self, seconds: float) -> None:
        """Send what may be sent, and read for so long."""
        end = time.monotonic() + seconds
        try:
            connection = self._connection or self._open()
            hangs_up = bool(self.queued) and time.monotonic() >= self._hangs_up
            # What a dead connection has taken may have gone nowhere, though it is under way for who sent it.
            arrives = random.randrange(WINDOW) if hangs_up else WINDOW
            out = []
            while self.queued and len(self.flying) < WINDOW:
                number, packet_id = self.queued.popleft(), heapq.heappop(self._free)
                self.flying[packet_id] = number
                self._told[number] = {self._session}
                if len(out) < arrives:
                    out.append(self._packet(packet_id, number, dup=False))
            connection.send(b"".join(out))
            if hangs_up:
                self._hangs_up = time.monotonic() + random.uniform(*HANG_UP_SECONDS)
                time.sleep(random.uniform(0, 0.02))
                self._lose(abort=random.random() < 0.5)
                return
            while True:
                self._read(connection, max(0.0, end - time.monotonic()))
                if time.monotonic() >= end:
                    break
            if self.flying and time.monotonic() - self._heard > ANSWER_SECONDS:
                self.index += 1
                raise OSError("no answer")
        except (OSError, EOFError) as error:
            say("e", now_ms(), str(error) or type(error).__name__)
            self._lose()
            time.sleep(0.05)

    def close(self) -> None:
        """Disconnect."""
        self._lose()

    def _packet(self, packet_id: int, number: int, *, dup: bool) -> bytes:
        subject, content = subject_of(number, self.subjects), content_of(self.name, number)
        return wire.publish(packet_id, subject, content, dup=dup)

    def _lose(self, *, abort: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and abort:
            connection.abort()
        elif connection is not None:
            connection.sock.close()

    @property
    def _address(self) -> str:
        return self.addresses[self.index % len(self.addresses)]

    def _open(self) -> Connection:
        """Connect, and send again what was under way, in its order (4.4)."""
        try:
            self._connection = connection = Connection(self._address, framed=self._framed, seconds=OPEN_SECONDS)
            present, _ = connection.enter(self.name, OPEN_SECONDS)
        except (OSError, EOFError):
            self.index += 1
            raise
        self._heard = time.monotonic()
        self._lives[self._address] = self._lives.get(self._address, 0) + (not present)
        self._session = self._address, self._lives[self._address]
        if self.flying:
            again = list(self.flying.values())
            say("d", now_ms(), again, [one for one in again if self._session not in self._told[one]])
            for number in again:
                self._told[number].add(self._session)
            connection.send(b"".join(self._packet(*one, dup=present) for one in self.flying.items()))
        return connection

    def _read(self, connection: Connection, seconds: float) -> None:
        packets = connection.receive(seconds)
        stored: list[Any] = []
        refused: list[Any] = []
        try:
            for packet in packets:
                self._heard = time.monotonic()
                if packet.type == DISCONNECT:
                    raise OSError(f"ended with 0x{packet.code:02X}")
                if packet.type == PUBACK:
                    self._settled(packet, stored, refused)
        finally:
            if stored:
                say("a", now_ms(), stored, self._address)
            if refused:
                say("r", now_ms(), refused)
        if refused and len(self.addresses) > 1:
            self.index += 1
            raise OSError("refused: elsewhere")

    def _settled(self, packet: Packet, stored: list[Any], refused: list[Any]) -> None:
        """An acknowledgement says no position."""
        number = self.flying.pop(packet.id, None)
        if number is None:
            raise OSError(f"PUBACK of {packet.id}, which is not under way")
        heapq.heappush(self._free, packet.id)
        del self._told[number]
        if packet.code < wire.REFUSED:
            stored.append([number, 0, 0])
        else:
            refused.append([number, f"0x{packet.code:02X}", ""])
