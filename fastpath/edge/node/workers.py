"""The workers of a node as one of them sees the others: who is there, and the messages that come and go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .messages import Packet

Handler = Callable[[int, Any], None]
"""Takes a message of its type, and which worker it comes from."""


class Leader(Protocol):
    """The first worker's links to the others."""

    def send(self, packet: Packet, worker: int | None) -> None:
        """Send to all that follow, or to one of them."""

    def unsent_to(self, worker: int) -> int:
        """Return the number of bytes that wait for that worker."""

    def figures(self) -> list[dict[str, float]]:
        """Return the figures that each of the others told last."""

    def ended(self) -> list[dict[str, float]]:
        """Return the last figures of workers that have gone since this was asked before."""

    @property
    def gone(self) -> Mapping[str, float]:
        """The figures that workers which are gone had counted."""


class LeaderLink(Protocol):
    """Another worker's link to the first."""

    def send(self, packet: Packet) -> bool:
        """Send to the first worker; whether that could be done."""

    def unsent(self) -> int:
        """Return the number of bytes that wait for the first worker."""


class Workers:
    """The workers of a node, of which this one is ``number``; 0 is the first, or the only one.

    ``follows`` says whether another worker is the first. The listeners of ``linked`` are told that messages can be sent
    to the worker of that number, on others than the first that they can to the first (0), which may be a new one; those
    of ``parted`` on the first worker that the worker of that number is gone.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.follows = False
        self._leader: Leader | None = None
        self._follower: LeaderLink | None = None
        self._handlers: dict[type, Handler] = {}
        self._linked: list[Callable[[int], None]] = []
        self._parted: list[Callable[[int], None]] = []

    def lead(self, leader: Leader) -> None:
        """Take part as the first of several workers: the others are there."""
        self._leader = leader

    def follow(self, follower: LeaderLink) -> None:
        """Take part as a worker that is not the first: the first one is there."""
        self._follower = follower
        self.follows = True

    def hear(
        self,
        handlers: Mapping[type, Handler],
        linked: Callable[[int], None] | None,
        parted: Callable[[int], None] | None,
    ) -> None:
        """Have messages handled, by their types, and be told who comes and goes."""
        self._handlers.update(handlers)
        if linked is not None:
            self._linked.append(linked)
        if parted is not None:
            self._parted.append(parted)

    def to_first(self, message: Packet) -> bool:
        """Send to the first worker; whether that could be done."""
        return self._follower is not None and self._follower.send(message)

    def to_others(self, message: Packet, worker: int | None = None) -> None:
        """Send, on the first worker, to all others or to one of them; on another one there are none."""
        if self._leader is not None:
            self._leader.send(message, worker)

    def unsent_to(self, worker: int) -> int:
        """Return, on the first worker, the number of bytes that wait for that one."""
        return self._leader.unsent_to(worker) if self._leader is not None else 0

    def unsent(self) -> int:
        """Return the number of bytes that wait for the first worker."""
        return self._follower.unsent() if self._follower is not None else 0

    def figures(self) -> list[dict[str, float]]:
        """Return the figures that each of the other workers told last; only the first one knows of others."""
        return self._leader.figures() if self._leader is not None else []

    def ended(self) -> list[dict[str, float]]:
        """Return the last figures of workers that have gone since this was asked before."""
        return self._leader.ended() if self._leader is not None else []

    @property
    def gone(self) -> Mapping[str, float]:
        """The figures that workers which are no more had counted."""
        return self._leader.gone if self._leader is not None else {}

    def received(self, worker: int, message: Packet) -> bool:
        """Handle a message; whether any part of this process takes messages of its type."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return False
        handler(worker, message)
        return True

    def linked(self, worker: int) -> None:
        """Tell the listeners that messages can be sent to that worker."""
        for told in self._linked:
            told(worker)

    def parted(self, worker: int) -> None:
        """Tell the listeners that the worker is gone."""
        for told in self._parted:
            told(worker)
