"""What the broker asks of others: who numbers and keeps messages, and who hands bytes to sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .admission import Outcome
from .interest import Group
from .messages import Message


class Engine(Protocol):
    """Who numbers and keeps messages."""

    epoch: int

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Give the messages their time and position and keep them, in one atomic step.

        None says that all are new. Else there is an outcome for each: those with a plain number are to be delivered, of
        the others nothing has changed.
        """


class Writer:
    """Hands bytes to sockets; the edge's replaces this one, which drops them."""

    def write_group(self, group: Group, data: bytes) -> None:
        """Send whole frames to every member."""

    def write_ones(self, groups: list[Group], fds: list[int], frames: list[bytes]) -> None:
        """Send to the one ready member of each group its own frames; ``fds`` and ``frames`` stand in the same order."""
