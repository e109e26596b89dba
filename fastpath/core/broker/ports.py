"""What the broker asks of others: who numbers and keeps messages, and who hands bytes to sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..delivery.client import Client
from ..delivery.groups import Group
from ..protocol.messages import Message
from .admission import Outcome


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

    members_max = 1000
    """To so many clients a group is written in one go; and so many writes to such groups make a turn, about 5 ms."""
    step_members = 250
    """Of a larger group so many are written to before ``over`` is asked."""

    def write_group(self, group: Group, data: bytes) -> None:
        """Send whole frames to every member."""

    def write_some(self, clients: list[Client], fds: list[int], data: bytes) -> None:
        """Send whole frames to some ready members of a group; ``fds`` stand in the order of ``clients``."""

    def write_ones(self, groups: list[Group], fds: list[int], frames: list[bytes]) -> None:
        """Send to the one ready member of each group its own frames; ``fds`` and ``frames`` stand in the same order."""

    def begin(self) -> None:
        """A turn of writes to large groups begins."""

    def over(self) -> bool:
        """Whether it has taken as long as a turn may; asked after each step of it."""
        return False
