"""The socket of a client's connection, whatever it is: a descriptor, TLS, or the answers to polls.

A connection has a socket, and is none. One object may be the socket of many connections, and is told of which one each
time: a plain connection costs no second object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ...listen_address import Listener

Carried = TypeVar("Carried")
"""The kind of connection."""


class ClientSocket(ABC, Generic[Carried]):
    """The socket of a client, as its connection asks something of it."""

    __slots__ = ("listener",)

    direct = False
    """True if the writer may write to a connection's ``fd`` past this."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        """The port over which the peer came."""

    @abstractmethod
    def send(self, connection: Carried, data: bytes | memoryview) -> int:
        """Hand over bytes and return how many were taken; 0 when there is no room, -1 when it is broken."""

    @abstractmethod
    def await_writable(self, connection: Carried, wanted: bool) -> None:
        """Call ``writable`` of the connection when bytes are taken again, or no more."""

    @abstractmethod
    def await_readable(self, connection: Carried, wanted: bool) -> None:
        """Read what comes, or nothing more."""

    @abstractmethod
    def finish(self, connection: Carried) -> None:
        """Send nothing more; what the peer says is still read."""

    @abstractmethod
    def shut(self, connection: Carried) -> None:
        """Let go of the connection."""

    def receive(self, connection: Carried) -> None:
        """Read what has come, where the socket is watched (edge/runtime/epoll.py)."""
