"""This process as the sidecar's channel layer knows it: its name, its groups, and a connection for each loop."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from realtime.channel_layer.loop_connection import LoopConnection
from realtime.channel_layer.memberships import Memberships


class ChannelProcess:
    """A process; a child after a fork is another one."""

    def __init__(self, address: str, seconds: float, left_out: Callable[[str, int, int], None]) -> None:
        """Prepare a process; ``left_out`` is told of a group, how many of its channels were full, and of how many."""
        self.name = secrets.token_hex(8)
        """Stands in the names of its process-local channels."""
        self.memberships = Memberships()
        self._address = address
        self._seconds = seconds
        self._left_out = left_out
        self._connections: dict[asyncio.AbstractEventLoop, LoopConnection] = {}

    def connection(self) -> LoopConnection:
        """Return the connection of the loop that runs now."""
        loop = asyncio.get_running_loop()
        found = self._connections.get(loop)
        if found is None:
            for other in [other for other in list(self._connections) if other.is_closed()]:
                self._connections.pop(other, None)
            found = LoopConnection(self._address, self.name, self._seconds, self.memberships, self._left_out)
            self._connections[loop] = found
        return found

    def abandon(self) -> None:
        """Let go of the parent's connections in the child of a fork."""
        for connection in list(self._connections.values()):
            connection.abandon()
