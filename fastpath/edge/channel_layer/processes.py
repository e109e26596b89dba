"""The processes of Django that are connected, the receivers that wait on their connections, and what they are told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..runtime.component import ControlPeer

CANCELLED = "cancelled"

LOG_SECONDS = 1.0
"""Seconds between two lines about what could be told to no process."""

log = logging.getLogger("fastpath.channels")


class Receiver:
    """A request for the next message of a channel, until it is answered; ``over`` is told when it is."""

    def __init__(
        self,
        peer: ControlPeer,
        channel: str,
        waiting: dict[int, Receiver],
        over: Callable[[Receiver], None],
    ) -> None:
        self.channel = channel
        self._peer = peer
        self._number = peer.request
        self._waiting = waiting
        self._over = over
        waiting[self._number] = self

    def deliver(self, message: bytes, until: int) -> None:
        """Answer with a message, and until when it may wait (ms)."""
        self.drop()
        self._peer.reply(self._number, {"message": message, "until": until})

    def refuse(self, code: str, reason: str) -> None:
        """Answer that there is no message."""
        self.drop()
        self._peer.refuse(self._number, code, reason)

    def withdraw(self) -> None:
        """Answer that the receiver waits no more, as was asked."""
        self.refuse(CANCELLED, "the receiver waits no more")

    def drop(self) -> None:
        """Let go of the request."""
        self._waiting.pop(self._number, None)
        self._over(self)


class ProcessConnection:
    """A connection of a process, and its receivers by the numbers of their requests."""

    def __init__(self) -> None:
        self.process = ""
        self.receivers: dict[int, Receiver] = {}

    def belong(self, process: str) -> None:
        """Be that process' from now on."""
        self.process = process


class Processes:
    """All connections; ``ended`` gets one that is over."""

    def __init__(self, ended: Callable[[ProcessConnection], None]) -> None:
        self._ended = ended
        self._connections: dict[ControlPeer, ProcessConnection] = {}
        self._peers: dict[str, dict[ControlPeer, None]] = {}
        self._untold = 0
        self._log_at = 0.0

    def connection(self, peer: ControlPeer) -> ProcessConnection:
        """Return the connection of a peer, a new one at first."""
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = ProcessConnection()
            peer.ended.append(lambda: self._end(peer))
        return connection

    def open(self, peer: ControlPeer, process: str) -> None:
        """Note that the peer is that process'."""
        self.connection(peer).belong(process)
        self._peers.setdefault(process, {})[peer] = None

    def connected(self, process: str) -> bool:
        """Return whether the process has a connection."""
        return process in self._peers

    def tell(self, name: str, content: dict[str, Any], owner: str = "", but: str = "") -> None:
        """Push something to the owner, or to all processes where there is none, but not to that one."""
        for process, peers in self._peers.items():
            if process != but and owner in ("", process):
                for peer in peers:
                    peer.push(name, content)

    def tell_left_out(self, process: str, group: str, full: int, of: int, time: float) -> None:
        """Tell a process, once, which channels of another node have not got its message; or the log, once a second at
        most by ``time`` (s), when the process has gone since."""
        peer = next(iter(self._peers.get(process, ())), None)
        if peer is not None:
            peer.push("channel_left_out", {"group": group, "full": full, "of": of})
            return
        self._untold += full
        if time >= self._log_at:
            text = "%d of %d channels in the group %s have not got a message at another node; %d since the last line"
            log.warning(text, full, of, group, self._untold)
            self._untold, self._log_at = 0, time + LOG_SECONDS

    def _end(self, peer: ControlPeer) -> None:
        connection = self._connections.pop(peer)
        peers = self._peers.get(connection.process, {})
        peers.pop(peer, None)
        if connection.process and not peers:
            del self._peers[connection.process]
        self._ended(connection)
