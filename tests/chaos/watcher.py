"""A subscriber of a few lines that keeps every frame; nothing of the product's client is in it.

It asks for what it misses as protocol.md 5.3 and 4.8 say, and drops nothing that it was sent: what is wrong in it is
the checker's to find.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .model import (
    RECOVERED,
    UPDATE,
    Answered,
    Connected,
    Event,
    Lost,
    Moved,
    Noticed,
    Position,
    Publication,
    Seen,
    Trace,
)

SILENCE_SECONDS = 3.0
"""Without any frame for so long, in spite of a ping a second, the connection is given up."""

CONNECT_SECONDS = 2.0
PAUSE_SECONDS = (0.02, 0.3)
"""Between a lost connection and the next attempt."""

ASKED_MAX = 3
"""How often the same gap is asked for; then it is taken as it came, and the checker sees it."""

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def now_ms() -> int:
    """The clock of all records: monotonic, and the same in every process of the machine."""
    return time.monotonic_ns() // 1_000_000


def masked(opcode: int, payload: bytes) -> bytes:
    """A client's frame; the key is zero, so that the payload stands as it is."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload


class _Subject:
    """How far one subject was read."""

    __slots__ = ("asked", "epoch", "name", "position", "tries", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.position: Position | None = None
        self.epoch = 0
        self.asked: Position | None = None
        self.waiting = True
        self.tries = 0


class Watcher:
    """``addresses`` answers host:port of the servers, tried in turn; events gather in ``trace``."""

    def __init__(
        self,
        name: str,
        addresses: Callable[[], Sequence[str]],
        subjects: Sequence[str],
        *,
        form: str = "json",
        steady: bool = False,
        silence_seconds: float = SILENCE_SECONDS,
        wander: bool = False,
        history: int = 0,
    ) -> None:
        self.trace = Trace(name, steady=steady)
        self.ready = asyncio.Event()
        self.connected = False
        self.last_ms = 0
        self.silence = silence_seconds
        self._addresses = addresses
        self.subjects = {subject: _Subject(subject) for subject in subjects}
        self._json = form == "json"
        codec = msgspec.json if self._json else msgspec.msgpack
        self._decode, self._encode = codec.decode, codec.encode
        self._sids: dict[int, _Subject] = {}
        self._wander = wander
        self._history = history
        self._index = 0
        self._id = 0
        self.writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Disconnect."""
        self.connected = False
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def cut(self) -> None:
        """Reset the connection from this side; it is opened again, elsewhere if there is an elsewhere."""
        if self.writer is not None:
            self.writer.transport.abort()

    def position(self, subject: str) -> int:
        """The number up to which it has read."""
        known = self.subjects[subject].position
        return known[1] if known else 0

    def has(self, one: Publication) -> bool:
        """Whether it has read as far as that was acknowledged."""
        return one.position is None or self.position(one.subject) >= one.position[1]

    async def _run(self) -> None:
        while True:
            addresses = self._addresses()
            if self._wander:
                self._index = random.randrange(len(addresses))
            address = addresses[self._index % len(addresses)]
            why = "refused"
            try:
                why = await self.serve(address)
            except (OSError, EOFError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            finally:
                self._end(why)
            self._index += 1
            await asyncio.sleep(random.uniform(*PAUSE_SECONDS))

    def _end(self, why: str) -> None:
        if self.connected:
            self.note(Lost(now_ms(), why))
        self.connected = False
        self._sids.clear()
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    async def serve(self, address: str) -> str:
        """One connection, until it ends; why it did."""
        host, _, port = address.rpartition(":")
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, self.writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
            form = "json" if self._json else "msgpack"
            self.writer.write(
                f"GET /ws HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\nSec-WebSocket-Version: 13\r\n"
                f"Sec-WebSocket-Protocol: fastpath.v1.{form}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            return head.split(b"\r\n")[0].decode(errors="replace")
        self.connected = True
        self.note(Connected(now_ms(), address))
        self.say({"op": "connect", "id": self.next_id()})
        self.ask(list(self.subjects.values()))
        pings = asyncio.create_task(self.ping())
        try:
            return await self._read(reader)
        finally:
            pings.cancel()

    async def ping(self) -> None:
        """Ask again and again whether the server is there."""
        while True:
            await asyncio.sleep(self.silence / 3)
            self.say({"op": "ping", "id": self.next_id()})

    async def _read(self, reader: asyncio.StreamReader) -> str:
        rest = b""
        while True:
            async with asyncio.timeout(self.silence):
                data = await reader.read(1 << 18)
            if not data:
                return "the server closed the connection"
            data = rest + data if rest else data
            at = now_ms()
            offset = 0
            while (frame := read_frame(data, offset)) is not None:
                opcode, start, offset = frame
                if opcode <= BINARY:
                    self.take(at, self._decode(data[start:offset]))
                elif opcode == CLOSE:
                    code = int.from_bytes(data[start : start + 2], "big")
                    return f"{code} {data[start + 2 : offset].decode(errors='replace')}"
                elif opcode == PING and self.writer is not None:
                    self.writer.write(masked(PONG, data[start:offset]))
            rest = data[offset:]

    def take(self, at: int, frame: Any) -> None:
        """A frame came."""
        if isinstance(frame, list):
            self._message(at, frame)
            return
        match frame["op"]:
            case "subscribed":
                for result in frame["results"]:
                    self._answered(at, result)
            case "epoch":
                self._moved(at, frame)
            case "notice":
                self.note(Noticed(at, frame["code"]))
            case "error":
                self.note(Noticed(at, f"error {frame['code']}: {frame['reason']}"))

    def _message(self, at: int, frame: list[Any]) -> None:
        known = self._sids.get(frame[0])
        if known is None or known.waiting:
            return
        seq = frame[1]
        meta = frame[5] if len(frame) > 5 and frame[5] else {}
        kind = meta.get("kind", UPDATE)
        last = known.position
        if kind == UPDATE and last is not None and seq > last[1] + 1 and known.tries < ASKED_MAX:
            known.tries += 1
            self.note(Noticed(at, "gap", known.name))
            self.ask([known])
            return
        self.note(Seen(at, known.name, known.epoch, seq, kind, frame[3]))
        self.last_ms = at
        if kind in (UPDATE, RECOVERED) and seq:
            known.position = known.epoch, seq
            known.tries = 0 if kind == UPDATE else known.tries

    def _answered(self, at: int, result: dict[str, Any]) -> None:
        known = self.subjects[result["subject"]]
        if "error" in result:
            self.note(Noticed(at, result["error"], known.name))
            return
        known.waiting = False
        known.epoch = result["epoch"]
        self._sids[result["sid"]] = known
        recovery = result.get("recovery", "")
        head = result["epoch"], result["seq"]
        self.note(Answered(at, known.name, *head, recovery, result.get("messages", 0), known.asked))
        if recovery != "recovered":
            known.position = head
        self.last_ms = at
        if not any(one.waiting for one in self.subjects.values()):
            self.ready.set()

    def _moved(self, at: int, frame: dict[str, Any]) -> None:
        known = self._sids.get(frame["sid"])
        if known is None:
            return
        epoch, seq = frame["epoch"], frame["seq"]
        self.note(Moved(at, known.name, epoch, seq))
        known.epoch = epoch
        last = known.position
        if last is not None and last[1] < seq:
            self.ask([known])
        elif last is not None:
            known.position = epoch, seq

    def ask(self, subjects: list[_Subject]) -> None:
        """Subscribe to these, from where each was read."""
        since: dict[str, Position] = {}
        for known in subjects:
            known.waiting = True
            known.asked = known.position
            if known.position is not None:
                since[known.name] = known.position
        command: dict[str, Any] = {"op": "subscribe", "id": self.next_id(), "subjects": [one.name for one in subjects]}
        if self._history:
            command["history"] = self._history
        if since:
            command["since"] = since
        self.say(command)

    def say(self, command: dict[str, Any]) -> None:
        """Send a command."""
        if self.writer is not None:
            self.writer.write(masked(TEXT if self._json else BINARY, self._encode(command)))

    def next_id(self) -> int:
        """The id of a command."""
        self._id += 1
        return self._id

    def note(self, event: Event) -> None:
        """Write an event down."""
        self.trace.events.append(event)


def read_frame(data: bytes, offset: int) -> tuple[int, int, int] | None:
    """Opcode, and where the payload of the server's frame begins and ends; None when it is not whole yet."""
    if len(data) < offset + 2:
        return None
    size = data[offset + 1]
    start = offset + 2
    if size > 125:
        width = 2 if size == 126 else 8
        start += width
        size = int.from_bytes(data[offset + 2 : start], "big")
    if len(data) < start or len(data) < start + size:
        return None
    return data[offset] & 0x0F, start, start + size
