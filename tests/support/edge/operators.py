"""What operators' verbs are asked with: a reader of traces, and a peer of the control socket without a socket."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from fastpath.client.control.client import Control
from fastpath.core.auth.grants import Principal
from fastpath.edge.node.messages import Packet, decode, encode
from fastpath.edge.runtime.runtime import Runtime
from fastpath.server.components import make_runtime
from fastpath.settings import Settings
from tests.support.waiting import auntil, until


class Reader:
    """Reads a trace as the page does; ``events`` are all that came."""

    begun: ClassVar[list[str]] = []

    def __init__(self, control: Control, **about: Any) -> None:
        self.control = control
        self.trace = control.trace(**about)
        self.begun.append(self.trace)
        self.events: list[dict[str, Any]] = []
        self.ended = ""
        self.dropped = 0

    def read(self) -> list[dict[str, Any]]:
        """The next events."""
        answer = self.control.traced(self.trace, self.events[-1]["n"] if self.events else 0)
        self.events += answer["events"]
        self.ended, self.dropped = answer["ended"], answer["dropped"]
        return list(answer["events"])

    def until(self, *names: str) -> list[dict[str, Any]]:
        """All events, once those of the end are the named ones; their numbers have no gap."""

        def complete() -> bool:
            self.read()
            return [event["event"] for event in self.events][-len(names) :] == list(names)

        until(complete)
        assert [event["n"] for event in self.events] == list(range(1, len(self.events) + 1))
        return self.events

    def names(self) -> list[str]:
        """What has happened, in order."""
        return [event["event"] for event in self.events]

    def end(self) -> None:
        """End it, and read the rest."""
        self.control.untrace(self.trace)
        until(lambda: self.read() == [] and self.ended)


def told(event: dict[str, Any], *keys: str) -> list[Any]:
    """What an event says of these."""
    return [event[key] for key in keys]


class Peer:
    """An in-memory connection of the control socket; ``answers`` by the number of the request."""

    def __init__(self) -> None:
        self.request = 0
        self.principal: Principal | None = None
        self.ended: list[Any] = []
        self.answers: dict[int, Any] = {}

    def reply(self, number: int, answer: dict[str, Any]) -> None:
        """Note it."""
        self.answers[number] = answer

    def refuse(self, number: int, code: str, reason: str) -> None:
        """Note it."""
        self.answers[number] = (code, reason)

    def push(self, name: str, content: dict[str, Any]) -> int:
        """Nothing is said unasked."""
        raise AssertionError((name, content))

    def waiting(self) -> int:
        """Nothing waits."""
        return 0

    async def ask(self, runtime: Runtime, verb: str, **arguments: Any) -> Any:
        """The answer to a verb."""
        self.request += 1
        number = self.request
        answer = runtime.verbs[verb](self, arguments)
        return answer if answer is not None else await auntil(lambda: self.answers.get(number))


def linked() -> tuple[Runtime, Runtime]:
    """A first worker and another one, whose packets go by turns of the loop."""
    loop = asyncio.get_running_loop()
    first = make_runtime(Settings(mode="none"), loop)
    other = make_runtime(Settings(mode="none"), loop, worker=1)

    first.workers.lead(Leading(other))
    other.workers.follow(Following(first))
    first.workers.linked(1)
    other.workers.linked(0)
    return first, other


class Leading:
    """The links of a first worker to a single other one; without ``other``, what is sent is kept."""

    def __init__(self, other: Runtime | None = None, ended: list[dict[str, float]] | None = None) -> None:
        self.gone: dict[str, float] = {}
        self._ended = ended or []
        self.told: list[dict[str, float]] = []
        self.sent: list[tuple[Packet, int | None]] = []
        self._other = other

    def send(self, packet: Packet, worker: int | None) -> None:
        """In another turn of the loop, as it is decoded there."""
        self.sent.append((packet, worker))
        if self._other is not None and worker in (None, 1):
            self._other.loop.call_soon(self._other.workers.received, 0, decoded(packet))

    def figures(self) -> list[dict[str, float]]:
        """What the other worker is said to have told."""
        return self.told

    def ended(self) -> list[dict[str, float]]:
        """Those that a test says have ended, once each."""
        ended, self._ended = self._ended, []
        return ended


class Following:
    """The link of another worker to the first one; without ``first``, what is sent is kept."""

    def __init__(self, first: Runtime | None = None, *, takes: bool = True) -> None:
        self.sent: list[Packet] = []
        self.takes = takes
        self.waits = 0
        self._first = first

    def send(self, packet: Packet) -> bool:
        """In another turn of the loop, as it is decoded there."""
        self.sent.append(packet)
        if self._first is not None:
            self._first.loop.call_soon(self._first.workers.received, 1, decoded(packet))
        return self.takes

    def unsent(self) -> int:
        """As much as a test says."""
        return self.waits


def decoded(packet: Packet) -> Any:
    """The packet as the other side gets it."""
    return decode(memoryview(encode(packet))[4:])


class Nowhere:
    """A link of the core that leads nowhere."""

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def lag(self, data: bytes, sent: int) -> None:
        """It never does."""

    def hold(self, why: int, held: bool) -> None:
        """It says nothing."""

    def close(self, code: int, reason: str) -> None:
        """It stays."""
