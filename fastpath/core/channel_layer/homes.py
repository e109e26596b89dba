"""Which of several nodes keeps which channels: those of a process where that is connected, all others one of them."""

from __future__ import annotations

import builtins

from .groups import process_of

NAMED = "*"
"""The place of all channels that any process may receive from; one node has it."""

CONNECTED, LEFT = 2, 1
"""Words of a node about a process' place: the process is connected there, or was a moment ago."""

PLACES_MAX = 200_000
"""Places of all other nodes together: what passes it is left out, and counted."""

Said = tuple[str, int]
"""A node, and what it says of a place."""


def place_of(channel: str) -> str:
    """Return the place of a channel: its process' own, or the one of all channels that are no process'."""
    process = process_of(channel)
    return place_of_process(process) if process else NAMED


def place_of_process(process: str) -> str:
    """Return the place of the channels that only this process receives from."""
    return f".{process}"


def process_at(place: str) -> str:
    """Return the process of a place; empty for the one of named channels."""
    return place[1:] if place != NAMED else ""


class Homes:
    """Places as other nodes tell them (core/presence/replication.py), by member: a node's name, a space, whatever."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        self._places_max = places_max
        self._places: dict[str, dict[str, int]] = {}  # by place and member
        self._said: dict[str, dict[str, None]] = {}  # by member
        self._changed: set[str] = set()
        self._count = 0
        self.left_out = 0
        """Number of times that a place was passed over, as there are too many."""

    def __len__(self) -> int:
        return len(self._places)

    def set(self, member: str, key: str, count: int, now: int) -> None:
        """Note that the member has that place, or with 0 has it no more; raise ValueError for what is no place."""
        del now
        if key != NAMED and not key.startswith("."):
            raise ValueError(f"{key!r} is no place of channels")
        said = self._said.setdefault(member, {})
        if not count:
            if key in said:
                del said[key]
                self._discard(member, key)
            return
        if key not in said:
            if self._count >= self._places_max:
                self.left_out += 1
                return
            said[key] = None
            self._count += 1
        members = self._places.setdefault(key, {})
        if members.get(member) != count:
            members[member] = count
            self._changed.add(key)

    def drop(self, member: str) -> None:
        """Note that the member has nothing any more."""
        for key in self._said.pop(member, ()):
            self._discard(member, key)

    def find(self, place: str) -> Said | None:
        """Return the node that has the place: who has more to say, and of equals the one whose name comes first."""
        members = self._places.get(place)
        if not members:
            return None
        count, node = min((-count, member.partition(" ")[0]) for member, count in members.items())
        return node, -count

    def take_changed(self) -> builtins.set[str]:
        """Return the places of which something else was said since this was asked before."""
        changed, self._changed = self._changed, set()
        return changed

    def _discard(self, member: str, key: str) -> None:
        self._count -= 1
        members = self._places[key]
        del members[member]
        if not members:
            del self._places[key]
        self._changed.add(key)
