"""Who is where, over all processes: what each says of its own clients, added up; joins and leaves (features.md E6, E7).

Every process is a **member** that says of each **key** how many of its own there are. A key is

* ``subject NUL user``: connections of the user that are subscribed to the subject (``present_key``); with an empty
  subject, all of its connections; an empty user is anonymous;
* a subject: this process has subscribers of it, and somebody advertised it;
* ``a`` and a pattern: clients and publishers that advertise it (``advertised_key``).

Members say how many there are, never how many more: what is said twice, or after a gap, does no harm.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import NamedTuple

SETTLE_MS = 2000
"""Milliseconds within which who leaves and is back has not left: a page that is loaded again, a client that goes to
another node."""

KEYS_MAX = 1_000_000
"""Keys of all members together, at about 250 bytes each: what passes it is left out, and counted."""

_NUL = "\0"
_ADVERTISED = "a"


def present_key(subject: str, user: str) -> str:
    """Return the key of a user on a subject, or anywhere (no subject)."""
    return f"{subject}{_NUL}{user}"


def advertised_key(pattern: str) -> str:
    """Return the key of a pattern that somebody advertises."""
    return _ADVERTISED + pattern


class Change(NamedTuple):
    """The user has joined the subject with so many connections, or left it with 0; user None: it is wanted in so many
    processes, or not any more."""

    subject: str
    user: str | None
    number: int


class Roster:
    """The sum over all members. Times are ms of any clock that does not go back."""

    def __init__(self, keys_max: int = KEYS_MAX, settle_ms: int = SETTLE_MS) -> None:
        self.present: dict[str, dict[str, int]] = {}
        """Connections by subject, then user; 0 for one who has just gone and may be back."""
        self.anonymous: dict[str, int] = {}
        """Connections of nobody in particular, by subject."""
        self.wanted: dict[str, int] = {}
        """Subjects that somebody advertised: in how many processes they have subscribers; 0 as above."""
        self.patterns: dict[str, int] = {}
        """Patterns, and how many advertise them."""
        self.patterns_changed = False
        """True once a pattern came or went; set back by whoever has looked."""
        self.keys = 0
        self.left_out = 0
        self._keys_max = keys_max
        self._settle_ms = settle_ms
        self._members: dict[str, dict[str, int]] = {}
        self._dropping: list[dict[str, int]] = []
        # Taken from the front: a plain dict would look at all that was taken out before, each time.
        self._news: OrderedDict[str, None] = OrderedDict()  # came and is not told yet
        self._due: OrderedDict[str, int] = OrderedDict()  # went, and is told at that time; in the order of times

    @property
    def waits(self) -> bool:
        """True if ``step`` has something to do, now or later."""
        return bool(self._dropping or self._news or self._due)

    def busy(self, now: int) -> bool:
        """Return whether ``step`` has something to do at this moment."""
        return bool(self._dropping or self._news) or (bool(self._due) and next(iter(self._due.values())) <= now)

    def set(self, member: str, key: str, count: int, now: int) -> None:
        """Set how many there are of the key, as the member says."""
        counts = self._members.get(member)
        if counts is None:
            counts = self._members[member] = {}
        before = counts.get(key, 0)
        if count == before:
            return
        if not count:
            del counts[key]
            self.keys -= 1
        else:
            if not before:
                if self.keys >= self._keys_max:
                    self.left_out += 1
                    return
                self.keys += 1
            counts[key] = count
        self._add(key, count - before, now)

    def drop(self, member: str) -> None:
        """Drop a member that is no more: ``step`` takes out what the member said."""
        counts = self._members.pop(member, None)
        if counts:
            self._dropping.append(counts)

    def step(self, now: int, most: int) -> list[Change]:
        """Do up to so much of what is due; return what there is to tell of it."""
        changes: list[Change] = []
        while self._dropping and most > 0:
            counts = self._dropping[-1]
            while counts and most > 0:
                key, count = counts.popitem()
                self.keys -= 1
                most -= 1
                self._add(key, -count, now)
            if not counts:
                self._dropping.pop()
        for key, time in list(islice(self._due.items(), max(most, 0))):
            if time > now:
                break
            del self._due[key]
            most -= 1
            subject, user = self._forget(key)
            changes.append(Change(subject, user, 0))
        for key in list(islice(self._news, max(most, 0))):
            del self._news[key]
            subject, nul, user = key.partition(_NUL)
            count = self.present[subject][user] if nul else self.wanted[subject]
            changes.append(Change(subject, user if nul else None, count))
        return changes

    def who(self, subject: str, most: int) -> tuple[list[tuple[str, int]], int, int]:
        """Return the first users on the subject with their connections, the anonymous connections, and how many more
        users there are."""
        users = self.present.get(subject, {})
        return list(islice(users.items(), most)), self.anonymous.get(subject, 0), max(0, len(users) - most)

    def _add(self, key: str, change: int, now: int) -> None:
        if key.startswith(_ADVERTISED):
            if _counted(self.patterns, key[1:], change):
                self.patterns_changed = True
            return
        subject, nul, user = key.partition(_NUL)
        if nul and not user:
            _counted(self.anonymous, subject, change)
            return
        if nul:
            table, name = self.present.setdefault(subject, {}), user
        else:
            table, name = self.wanted, subject
        before = table.get(name, 0)
        table[name] = after = before + change
        if not before:
            if self._due.pop(key, None) is None:
                self._news[key] = None
        elif not after:
            if key in self._news:
                del self._news[key]
                self._forget(key)
            else:
                self._due[key] = now + self._settle_ms

    def _forget(self, key: str) -> tuple[str, str | None]:
        subject, nul, user = key.partition(_NUL)
        if not nul:
            del self.wanted[subject]
            return subject, None
        users = self.present[subject]
        del users[user]
        if not users:
            del self.present[subject]
        return subject, user


def _counted(table: dict[str, int], name: str, change: int) -> bool:
    """Count, and forget what comes to 0; return whether the name came or went."""
    before = table.get(name, 0)
    after = before + change
    if after:
        table[name] = after
    else:
        table.pop(name, None)
    return not before or not after
