"""The engine of a worker that does not number messages: it hands publications to the first worker, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..core.broker.admission import Done, Outcome, with_refusals
from ..core.broker.broker import Broker
from ..core.protocol.messages import Message
from ..core.protocol.packets import Refusal, handed_in
from .base import Engine
from .order_fence import HELD, OrderFence

if TYPE_CHECKING:
    from ..settings import Settings

_UNKNOWN = (
    "unavailable",
    "the server's first worker ended before it answered: the message may have been published or not",
)


class Upstream(Protocol):
    """The way to the first worker (edge/workers/follower.py)."""

    def refused(self) -> Refusal | None:
        """Return the reason why the first worker takes no publication at this moment."""

    def hand_in(self, rows: list[list[Any]], since: int) -> None:
        """Send publications, the first of which was accepted at ``since`` (ns of the monotonic clock)."""

    def unread(self) -> bool:
        """Return whether something of the first worker's log may wait unread."""


class FollowerEngine(Engine):
    """Knows the epoch of the first worker's engine; messages come numbered from there."""

    name = "follower"
    judges = False

    def __init__(self) -> None:
        self.epoch = 0
        self._upstream: Upstream | None = None
        self._rows: list[list[Any]] = []
        self._since = 0  # when the first of them was accepted (edge/runtime/delivery_latency.py)
        self._asked: deque[tuple[Sequence[Message], Done | None]] = deque()

    @classmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        del settings, clock
        return cls()

    def attach(self, broker: Broker) -> None:
        self._broker = broker

    def follow(self, loop: asyncio.AbstractEventLoop, upstream: Upstream) -> None:
        """Hand publications to ``upstream`` from now on, those of one turn of the loop together."""
        self._loop, self._upstream = loop, upstream
        self._holds = OrderFence(loop.time)
        self._holds.away()

    def unheard(self) -> bool:
        return self._upstream is None or self._upstream.unread()

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Engine: the first worker numbers them, at its own time."""
        assert self._upstream is not None
        refused = self._upstream.refused()
        if refused is not None:
            self._holds.note(messages)
            self._refuse(refused, messages, done)
            return
        if self._holds and (early := self._holds.refused(messages, HELD)):
            self._broker.counters.failed(early.values())
            messages = [message for index, message in enumerate(messages) if index not in early]
            done = done and with_refusals(done, early)
        if not messages and not self._asked:
            if done is not None:
                done([])
            return
        if not self._rows:
            self._since = monotonic_ns()
            self._loop.call_soon(self._hand_in)
        self._rows += [handed_in(message) for message in messages]
        self._asked.append((messages, done))

    def away(self) -> None:
        """Note that the first worker stores nothing for now."""
        self._holds.away()

    def back(self) -> None:
        """Note that the first worker stores publications again."""
        self._holds.back()

    def answered(self, epoch: int, outcomes: list[Any]) -> None:
        """Give outcomes in the order in which publications were handed in, for one or several of them."""
        at = 0
        while at < len(outcomes) or (self._asked and not self._asked[0][0]):
            messages, done = self._asked.popleft()
            own: list[Outcome] = []
            for message, outcome in zip(messages, outcomes[at : at + len(messages)], strict=True):
                if isinstance(outcome, int):
                    message.epoch, message.seq = (epoch if outcome else 0), outcome
                    own.append(outcome)
                else:
                    own.append((outcome[0], outcome[1]))
                    if outcome[0] == "unavailable":  # the first worker holds up what follows; the next one would not
                        self._holds.note((message,))
            at += len(messages)
            if done is not None:
                done(own)

    def forsake(self) -> None:
        """Note that the first worker is gone: what it has not answered may have been stored or not."""
        self._rows = []
        asked, self._asked = self._asked, deque()
        for messages, done in asked:
            self._holds.note(messages)
            self._refuse(_UNKNOWN, messages, done)

    def _refuse(self, why: Refusal, messages: Sequence[Message], done: Done | None) -> None:
        self._broker.counters.failed([why] * len(messages))
        if done is not None:
            done([why] * len(messages))

    def _hand_in(self) -> None:
        rows, self._rows = self._rows, []
        if self._upstream is not None and rows:
            self._upstream.hand_in(rows, self._since)
