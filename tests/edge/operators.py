"""What operators' verbs are asked with: a reader of traces, and a peer of the control socket without a socket."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from fastpath.client.control.client import Control
from fastpath.edge.runtime.hub import Hub
from fastpath.server.app import make_hub
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

    async def ask(self, hub: Hub, verb: str, **arguments: Any) -> Any:
        """The answer to a verb."""
        self.request += 1
        number = self.request
        answer = hub.verbs[verb](self, arguments)
        return answer if answer is not None else await auntil(lambda: self.answers.get(number))


def linked() -> tuple[Hub, Hub]:
    """A first worker and another one, whose packets go by turns of the loop."""
    loop = asyncio.get_running_loop()
    first = make_hub(Settings(mode="none"), loop)
    other = make_hub(Settings(mode="none"), loop, worker=1)

    def to_others(packet: list[Any], worker: int | None) -> None:
        if worker in (None, 1):
            loop.call_soon(other.packets[packet[0]], 0, packet[1:])

    def to_first(packet: list[Any]) -> bool:
        loop.call_soon(first.packets[packet[0]], 1, packet[1:])
        return True

    first.to_others, other.to_first = to_others, to_first
    for told in first.linked:
        told(1)
    for told in other.linked:
        told(0)
    return first, other


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
