"""`publish --recording`: publishers that are fed from a recording instead of made-up messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from fastpath.recording.lines import Recorded
from fastpath.recording.outlets import row_of
from fastpath.recording.replayer import PAUSE_SECONDS, Choice, messages_of
from fastpath.recording.timeline import Timeline

from ..load.dialects import Fastpath
from ..load.publishing import Outlet, PortOutlet
from ..load.sockets import BenchError

BATCH_MESSAGES = 500


class Feed:
    """The messages of a recording that these connections publish, each subject on one of all ``connections``.

    ``speed`` is how many times as fast as it was, 0 as fast as it goes. With ``again`` it begins anew after its end.
    """

    def __init__(
        self, path: str, prefix: str, connections: int, mine: dict[int, Outlet], speed: float, again: bool
    ) -> None:
        self._path = path
        self._choice = Choice(prefix)
        self._connections = connections
        self._mine = mine
        self._speed = speed
        self._again = again
        self._next: tuple[float, Outlet | None, Recorded] | None = None
        self._source = self._all(time.monotonic())

    def due(self, now: float) -> float | None:
        """How many seconds until a message is due, 0 if one is; None after the last."""
        if self._next is None:
            self._next = next(self._source, None)
        return None if self._next is None else max(0.0, self._next[0] - now)

    def publish(self, now: float) -> int:
        """Publish what is due, as far as the publishers take it; how many that were."""
        batches: dict[Outlet, list[Recorded]] = {}
        count = 0
        for _ in range(BATCH_MESSAGES):
            if self.due(now) != 0:
                break
            assert self._next is not None
            _, outlet, message = self._next
            if outlet is not None:
                if not outlet.room:
                    break
                batches.setdefault(outlet, []).append(message)
                count += 1
            self._next = None
        for outlet, messages in batches.items():
            if isinstance(outlet, PortOutlet):
                outlet.publish_rows([row_of(message) for message in messages])
            else:
                assert isinstance(outlet.dialect, Fastpath)
                outlet.write(outlet.dialect.commands([_command(message) for message in messages]))
        return count

    def _all(self, begin: float) -> Iterator[tuple[float, Outlet | None, Recorded]]:
        """Every message with its time; without an outlet those of other processes."""
        while True:
            timeline = Timeline()
            due, found, mine = begin, False, False
            for message in messages_of([self._path], self._choice):
                due = begin + timeline.place(message) / 1e6 / self._speed if self._speed else begin
                outlet = self._mine.get(crc32(message.subject.encode()) % self._connections)
                found, mine = True, mine or outlet is not None
                yield due, outlet, message
            if not found:
                raise BenchError(f"{self._path} has no messages")
            if not self._again or not mine:
                return
            begin = due + PAUSE_SECONDS / self._speed if self._speed else due


def _command(message: Recorded) -> dict[str, Any]:
    """Protocol.md 3.4."""
    command: dict[str, Any] = {"op": "publish", "subject": message.subject, "content": message.content}
    if message.fields:
        command["fields"] = message.fields
    if not message.retained:
        command["retained"] = False
    if message.removed:
        command["removed"] = True
    command["qos"] = message.qos
    return command
