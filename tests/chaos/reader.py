"""A subscriber made of the product's own client, so that its resuming is tested too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from fastpath.client import connect
from fastpath.client.message import Status

from .model import Connected, Lost, Noticed, Publication, Seen, Told, Trace
from .watcher import now_ms

OPTIONS: dict[str, Any] = {
    "timeout_seconds": 3,
    "ping_seconds": 1,
    "silence_seconds": 3,
    "quick_retries": 2,
    "quick_seconds": 0.2,
    "backoff_seconds": 0.3,
    "backoff_seconds_max": 1,
    "steady_seconds": 1,
    "reconnects_max": 10_000,
}
"""Impatient, so that a run is short."""


class Reader:
    """Like watcher.Watcher: events gather in ``trace``, in the order in which a program sees them."""

    def __init__(
        self,
        name: str,
        addresses: Callable[[], Sequence[str]],
        subjects: Sequence[str],
        *,
        form: str = "msgpack",
        steady: bool = False,
    ) -> None:
        self.trace = Trace(name, steady=steady, library=True)
        self.ready = asyncio.Event()
        self.connected = False
        self.last_ms = 0
        self._addresses = addresses
        self._subjects = list(subjects)
        self._form = form
        self._positions: dict[str, int] = {}
        self._marks: list[tuple[int, Any]] = []
        self._read = 0
        self._stream: Any = None
        self._heard: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def cut(self) -> None:
        """Nothing: its connections are cut from outside."""

    def position(self, subject: str) -> int:
        """The number up to which it has read."""
        return self._positions.get(subject, 0)

    def has(self, one: Publication) -> bool:
        """As in Watcher."""
        return one.position is None or self.position(one.subject) >= one.position[1]

    async def _run(self) -> None:
        urls = [f"ws://{address}/ws" for address in self._addresses()]
        async with connect(urls, None, self._form, on_status=self._status, **OPTIONS) as client:
            self.connected = True
            self._stream = client.subscribe(self._subjects)
            async for message in self._stream:
                self._flush()
                self._read += 1
                event = Seen(
                    now_ms(), message.subject, message.epoch, message.seq, message.kind, _text(message.content)
                )
                self.trace.events.append(event)
                self.last_ms = event.at
                self._positions[message.subject] = message.seq

    def _status(self, status: Status) -> None:
        at = now_ms()
        event: Any
        if status.name == "connected":
            self.connected = True
            event = Connected(at, status.url)
        elif status.name == "disconnected":
            event = Lost(at, f"{status.code} {status.reason}") if self.connected else Noticed(at, "attempt failed")
            self.connected = False
        elif status.subject:
            event = Told(at, status.subject, status.name)
            self._heard.add(status.subject)
            if self._heard.issuperset(self._subjects):
                self.ready.set()
        else:
            event = Noticed(at, f"{status.name} {status.reason}".strip())
        # What came before it may wait in the stream unread: its place is behind that.
        self._marks.append((self._read + (len(self._stream) if self._stream is not None else 0), event))
        self._flush()

    def _flush(self) -> None:
        while self._marks and self._marks[0][0] <= self._read:
            self.trace.events.append(self._marks.pop(0)[1])


def _text(content: str | bytes) -> str:
    return content if isinstance(content, str) else content.decode()
