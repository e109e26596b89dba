"""An engine that no file of the product knows: it numbers in a later turn of the loop, as one over a network would.

``python -m tests.support.engine.later_engine`` is the sidecar that knows it as ``FASTPATH_ENGINE=later``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Self

from fastpath.__main__ import main
from fastpath.core.broker.admission import Done
from fastpath.core.broker.broker import Broker
from fastpath.core.protocol.messages import Message
from fastpath.engine.base import Engine, EngineHost
from fastpath.engine.memory import MemoryEngine
from fastpath.engine.registry import register
from fastpath.settings import Settings


class LaterEngine(Engine):
    """Keeps nothing beyond its process."""

    name = "later"

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._numbers = MemoryEngine(epoch)
        self._waiting: list[tuple[Sequence[Message], int, Done]] = []

    @classmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        return cls(clock())

    def attach(self, broker: Broker) -> None:
        self._broker = broker

    def start(self, host: EngineHost) -> None:
        self._host = host

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Engine: in the next turn."""
        if not self._waiting:
            self._host.loop.call_soon(self._number)
        self._waiting.append((messages, now, self._broker.counters.counting(done)))

    def unheard(self) -> bool:
        return bool(self._waiting)

    def _number(self) -> None:
        waiting, self._waiting = self._waiting, []
        for messages, now, done in waiting:
            self._broker.numbered(messages, self._numbers.append(messages, now), done)
        self._host.end()


if __name__ == "__main__":
    register("later", "tests.support.engine.later_engine:LaterEngine")
    sys.exit(main())
