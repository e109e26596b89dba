"""How members of the roster tell each other what they have, over a way that keeps their order but may lose packets.

A packet is ``[member, life, n, kind, …]``: ``life`` names the process that speaks for the member, ``n`` how many
packets of changes it has sent. Kinds: ``d`` changes, ``w`` a piece of all that it has, ``b`` a sign of life, ``x`` the
end. Who misses one, or comes later, sees it by ``n`` and asks; the answer is all that the member has, in pieces between
the changes that go on. It is for everybody who has to ask; all others pass over it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol

Packet = list[Any]

KEYS_PER_PACKET = 200
"""Bounds the work of one packet to about half a millisecond, and its size."""

ASK_MS = 1000
"""Milliseconds between two questions to the same member."""


class Replica(Protocol):
    """The table of what the members say, as a whole: the roster, or another one of keys."""

    def set(self, member: str, key: str, count: int, now: int) -> None:
        """Set the count of a key as the member says it; raise ValueError for what is no key."""

    def drop(self, member: str) -> None:
        """Drop a member that is no more."""


class PresenceSender:
    """Says what one process has; with ``counts`` it has had these before anybody listened."""

    def __init__(self, member: str, life: str, counts: dict[str, int] | None = None) -> None:
        self.member = member
        self.counts = counts or {}
        self.n = int(bool(counts))  # or a sign of life would say that there is nothing
        self._life = life
        self._changed: OrderedDict[str, None] = OrderedDict()  # taken from the front
        self._whole: list[str] | None = None  # what is still to be sent of all keys, the last one first
        self._wholes = self._pieces = 0
        self._asked = False
        self._turn = False

    @property
    def busy(self) -> bool:
        """True while ``next`` has a packet."""
        return bool(self._changed) or self._asked or self._whole is not None

    def set(self, key: str, count: int) -> None:
        """Set how many there are of the key."""
        if count:
            self.counts[key] = count
        elif self.counts.pop(key, None) is None:
            return
        self._changed[key] = None

    def add(self, key: str, change: int) -> None:
        """Add so many to the key, or take them away."""
        self.set(key, max(0, self.counts.get(key, 0) + change))

    def ask(self) -> None:
        """Note that somebody does not know what this process has."""
        self._asked = True

    def next(self) -> Packet | None:
        """Return the next packet to send, a change and a piece of the whole in turn."""
        self._turn = not self._turn
        if (self._asked or self._whole is not None) and (self._turn or not self._changed):
            return self._piece()
        if not self._changed:
            return None
        keys = list(islice(self._changed, KEYS_PER_PACKET))
        for key in keys:
            del self._changed[key]
        self.n += 1
        return [self.member, self._life, self.n, "d", self._flat(keys)]

    def beat(self) -> Packet:
        """Return a sign of life."""
        return [self.member, self._life, self.n, "b"]

    def bye(self) -> Packet:
        """Return the packet that says that this process ends."""
        return [self.member, self._life, self.n, "x"]

    def _piece(self) -> Packet:
        if self._whole is None:
            self._whole = list(self.counts)  # not earlier: a key that came with a change before this may be missed
            self._asked = False
            self._wholes += 1
            self._pieces = 0
        keys = self._whole[-KEYS_PER_PACKET:]
        del self._whole[-KEYS_PER_PACKET:]
        last = not self._whole
        packet = [self.member, self._life, self.n, "w", self._wholes, self._pieces, last, self._flat(keys)]
        self._pieces += 1
        if last:
            self._whole = None
        return packet

    def _flat(self, keys: list[str]) -> list[str | int]:
        flat: list[str | int] = []
        for key in keys:
            flat += (key, self.counts.get(key, 0))
        return flat


class _Peer:
    """A member as it is heard: ``version`` is what it has in the roster, ``filling`` what is being learnt anew."""

    __slots__ = ("asked", "filling", "heard", "life", "moved", "n", "pieces", "synced", "version", "whole")

    def __init__(self, life: str) -> None:
        self.life = life
        self.n = 0
        self.heard = 0
        self.asked = -ASK_MS
        self.version = 0
        self.synced = False
        self.filling = False
        self.moved = False  # pieces have come since the last sign of life
        self.whole = 0
        self.pieces = 0


class PresenceReceiver:
    """Hears what members say, and puts it into the roster; ``ask`` asks one of them for all that it has.

    ``ended`` is told of a member that is gone, or in whose place another process speaks.
    """

    def __init__(
        self,
        roster: Replica,
        silence_ms: int,
        ask: Callable[[str], None],
        ended: Callable[[str], None] = lambda member: None,
    ) -> None:
        self._roster = roster
        self._ended = ended
        self._silence_ms = silence_ms
        self._ask = ask
        self._peers: dict[str, _Peer] = {}

    @property
    def members(self) -> int:
        """Number of members that are heard."""
        return len(self._peers)

    @property
    def names(self) -> list[str]:
        """Names of those that are heard."""
        return list(self._peers)

    @property
    def synced(self) -> int:
        """Number of members of which all is known that they have."""
        return sum(peer.synced for peer in self._peers.values())

    def hear(self, packet: Packet, now: int) -> bool:
        """Take what a member says; return whether the member was not known before, or is another process than before.

        Raises ValueError for what is no packet.
        """
        match packet:
            case [str(member), str(life), int(n), str(kind), *rest]:
                pass
            case _:
                raise ValueError("no packet of the roster")
        if kind == "x":
            if member in self._peers and self._peers[member].life == life:
                self._end(member)
            return False
        peer = self._peers.get(member)
        new = peer is None or peer.life != life
        if peer is None or new:
            if peer is not None:
                self._end(member)
            peer = self._peers[member] = _Peer(life)
            peer.synced = (n == 0 and kind == "b") or (n == 1 and kind == "d")
        peer.heard = now
        match kind, rest:
            case "d", [list(flat)]:
                self._change(member, peer, n, flat, now)
            case "w", [int(whole), int(piece), bool(last), list(flat)]:
                if self._goes_on(member, peer, n, whole, piece):
                    self._put(_version(member, peer, peer.version + 1), flat, now)
                    if last:
                        self._roster.drop(_version(member, peer, peer.version))
                        peer.version += 1
                        peer.filling, peer.synced = False, True
            case "b", []:
                if n != peer.n or (peer.filling and not peer.moved):
                    self._lose(member, peer)
                peer.moved = False
            case _:
                raise ValueError("no packet of the roster")
        if not peer.synced and not peer.filling and now - peer.asked >= ASK_MS:
            peer.asked = now
            self._ask(member)
        return new

    def leave(self, member: str) -> None:
        """Forget a member that is known to be gone."""
        if member in self._peers:
            self._end(member)

    def clear(self) -> None:
        """Forget all members: nobody can be heard."""
        for member in list(self._peers):
            self._end(member)

    def expire(self, now: int) -> None:
        """Let go of those who have been silent for too long."""
        for member in [one for one, peer in self._peers.items() if now - peer.heard > self._silence_ms]:
            self._end(member)

    def rest(self, now: int) -> None:
        """Count the silence of all members from now on: nobody could be heard."""
        for peer in self._peers.values():
            peer.heard = now

    def _end(self, member: str) -> None:
        peer = self._peers.pop(member)
        self._roster.drop(_version(member, peer, peer.version))
        if peer.filling:
            self._roster.drop(_version(member, peer, peer.version + 1))
        self._ended(member)

    def _change(self, member: str, peer: _Peer, n: int, flat: list[Any], now: int) -> None:
        if (peer.synced or peer.filling) and n == peer.n + 1:
            peer.n = n
            self._put(_version(member, peer, peer.version + peer.filling), flat, now)
        elif n != peer.n:
            self._lose(member, peer)

    def _goes_on(self, member: str, peer: _Peer, n: int, whole: int, piece: int) -> bool:
        """Return whether a piece is the next one of what is being learnt."""
        if peer.synced:
            peer.synced = n == peer.n
            return False
        if piece == 0:
            self._lose(member, peer)
            peer.filling, peer.whole, peer.pieces, peer.n = True, whole, 0, n
        if peer.filling and (whole, piece, n) != (peer.whole, peer.pieces, peer.n):
            self._lose(member, peer)
        peer.pieces += 1
        peer.moved = True
        return peer.filling

    def _lose(self, member: str, peer: _Peer) -> None:
        """Drop what was being learnt, which has a gap."""
        if peer.filling:
            self._roster.drop(_version(member, peer, peer.version + 1))
        peer.synced = peer.filling = False

    def _put(self, version: str, flat: list[Any], now: int) -> None:
        for key, count in zip(flat[::2], flat[1::2], strict=True):
            if not isinstance(key, str) or not isinstance(count, int) or count < 0:
                raise ValueError("no packet of the roster")
            self._roster.set(version, key, count, now)


def _version(member: str, peer: _Peer, number: int) -> str:
    """Return the name for what a process of the member has said since it began anew for the last time."""
    return f"{member} {peer.life} {number}"
