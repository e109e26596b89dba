"""A program of thousands of light clients, each with one subject, that go where a server is and count what is wrong.

``python -m tests.chaos.swarm '{"clients": 2500, "first": 0, "addresses": […], "subjects": […], "reach_seconds": 4}'``
writes ``ready`` when all have subscribed, and at SIGTERM one JSON object: what became of them all.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import time
from collections import Counter
from typing import Any, cast

import msgspec
import uvloop

from .model import RECOVERED, UPDATE
from .watcher import TEXT, masked, read_frame

OPENING_PER_SECOND = 1000
AGAIN_SECONDS = (0.05, 0.3)
"""Until the next attempt, where nobody listens."""

QUIET_SECONDS = 1.0
REST_SECONDS_MAX = 30.0

_decode = msgspec.json.decode


class Crowd:
    """What all clients share."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.addresses: list[str] = options["addresses"]
        self.reach_seconds: float = options["reach_seconds"]
        self.counts: Counter[str] = Counter()
        self.messages = 0
        self.recovery_ms: list[int] = []
        self.complete = asyncio.Event()
        first, subjects = options["first"], options["subjects"]
        self.clients = [Light(self, subjects[(first + n) % len(subjects)]) for n in range(options["clients"])]

    async def open(self) -> None:
        """Connect all, not faster than a crowd comes."""
        for number, client in enumerate(self.clients):
            client.go()
            if number % 50 == 49:
                await asyncio.sleep(50 / OPENING_PER_SECOND)
        await self.complete.wait()

    async def rest(self) -> None:
        """Until all are connected and nothing has come for a while; what does not come then never will."""
        end = time.monotonic() + REST_SECONDS_MAX
        before = -1
        while time.monotonic() < end and (self.messages != before or not all(one.serves for one in self.clients)):
            before = self.messages
            await asyncio.sleep(QUIET_SECONDS)

    def report(self) -> dict[str, Any]:
        """The end."""
        lasts: dict[str, int] = {}
        for client in self.clients:
            lasts[client.subject] = min(client.last, lasts.get(client.subject, client.last))
        connected = sum(client.serves for client in self.clients)
        return {"clients": len(self.clients), "connected": connected, "lasts": lasts} | {
            "counts": dict(self.counts),
            "recovery_ms": self.recovery_ms,
        }


class Light(asyncio.Protocol):
    """One client over all its connections."""

    def __init__(self, crowd: Crowd, subject: str) -> None:
        self.crowd = crowd
        self.subject = subject
        self.epoch = self.last = self.missing = 0
        self.known = self.serves = self.upgraded = False
        self.rest = b""
        self.lost_at = 0.0
        self.address = ""
        self.transport: asyncio.Transport | None = None

    def go(self) -> None:
        """Connect, to another server than before."""
        others = [one for one in self.crowd.addresses if one != self.address] or self.crowd.addresses
        self.address = random.choice(others)
        task = asyncio.ensure_future(self._connect())
        task.add_done_callback(lambda done: done.exception())

    async def _connect(self) -> None:
        host, _, port = self.address.rpartition(":")
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, host, int(port))
        except OSError:
            self.crowd.counts["refused"] += 1
            asyncio.get_running_loop().call_later(random.uniform(*AGAIN_SECONDS), self.go)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are."""
        self.transport = cast(asyncio.Transport, transport)
        self.rest, self.upgraded, self.serves = b"", False, False
        self.transport.write(
            b"GET /ws HTTP/1.1\r\nHost: chaos\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: c2FtcGxlIG5vbmNlIDEyMw==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )

    def data_received(self, data: bytes) -> None:
        """Frames, or the answer to the upgrade."""
        data = self.rest + data
        offset = 0
        if not self.upgraded:
            offset = data.find(b"\r\n\r\n") + 4
            if offset < 4:
                self.rest = data
                return
            self.upgraded = True
            self._subscribe()
        while (frame := read_frame(data, offset)) is not None:
            opcode, start, offset = frame
            if opcode == TEXT:
                self._take(_decode(data[start:offset]))
        self.rest = data[offset:]

    def connection_lost(self, error: Exception | None) -> None:
        """Elsewhere, at once."""
        del error
        self.crowd.counts["lost"] += 1
        self.lost_at = self.lost_at or time.monotonic()
        self.serves = False
        asyncio.get_running_loop().call_later(random.uniform(0, 0.05) if self.upgraded else 0.2, self.go)

    def _subscribe(self) -> None:
        command: dict[str, Any] = {"op": "subscribe", "id": 1, "subjects": [self.subject]}
        if self.known:
            command["since"] = {self.subject: [self.epoch, self.last]}
        self._say(command)

    def _say(self, command: dict[str, Any]) -> None:
        assert self.transport is not None
        self.transport.write(masked(TEXT, msgspec.json.encode(command)))

    def _take(self, frame: Any) -> None:
        if isinstance(frame, list):
            self._message(frame)
            return
        match frame["op"]:
            case "subscribed":
                self._subscribed(frame["results"][0])
            case "epoch":
                self.crowd.counts["void"] += self.last > frame["seq"]
                self.epoch, self.last = frame["epoch"], min(self.last, frame["seq"])
            case "notice" if frame["code"] == "drain":
                self.crowd.counts["drained"] += 1
                self.lost_at = time.monotonic()
                assert self.transport is not None
                self.transport.close()

    def _subscribed(self, result: dict[str, Any]) -> None:
        if "error" in result:
            self.crowd.counts[result["error"]] += 1
            return
        self.serves = True
        self.epoch = result["epoch"]
        if not self.known:
            self.crowd.counts["subscribed"] += 1
            if self.crowd.counts["subscribed"] == len(self.crowd.clients):
                self.crowd.complete.set()
            self.known, self.last = True, result["seq"]
            self.lost_at = 0.0
            return
        recovery = result["recovery"]
        if recovery == "resynchronised" and time.monotonic() - self.lost_at > self.crowd.reach_seconds:
            recovery = "away too long"
        self.crowd.counts[recovery] += 1
        if result["recovery"] == "recovered":
            self.missing = result.get("messages", 0)
        else:
            self.last, self.missing = result["seq"], 0
        self._recovered()

    def _message(self, frame: list[Any]) -> None:
        seq = frame[1]
        kind = frame[5].get("kind", UPDATE) if len(frame) > 5 and frame[5] else UPDATE
        if kind not in (UPDATE, RECOVERED):
            return
        self.crowd.messages += 1
        if seq <= self.last:
            self.crowd.counts["doubled"] += 1
        elif seq > self.last + 1:
            self.crowd.counts["gaps"] += 1
        self.last = max(seq, self.last)
        self.missing -= kind == RECOVERED
        self._recovered()

    def _recovered(self) -> None:
        if self.lost_at and self.missing <= 0:
            self.crowd.recovery_ms.append(int((time.monotonic() - self.lost_at) * 1000))
            self.lost_at = 0.0


async def main(options: dict[str, Any]) -> None:
    """Until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    crowd = Crowd(options)
    await crowd.open()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await ended.wait()
    await crowd.rest()
    sys.stdout.write(json.dumps(crowd.report()) + "\n")


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.argv[1])))
