"""A group on a worker that is not the first: its members look at messages here, and the first worker decides.

A message is asked for once, by the member whose turn it is here, with those that come next to it; whoever asks gets it
or knows that it is somebody else's. Nothing is taken that was not granted, so that no two workers take the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from .shares import Loan, Member, MessageKey, Share, Turn

_ELSEWHERE = "elsewhere"
"""Stands for whoever has taken the message on another worker."""

RETOLD_MAX = 1000
"""Messages of a group of which a new first worker is told that somebody here has had them: the newest ones."""


class FirstWorker(Protocol):
    """The way to the first worker; ``name`` is the group's."""

    def joined(self, session: Hashable, name: str, level: int) -> None:
        """Tell that the session is a member, and connected."""

    def quit(self, session: Hashable, name: str) -> None:
        """Tell that the session is no member any more."""

    def ask(self, session: Hashable, name: str, key: MessageKey) -> None:
        """Ask for a message: ``AskingShare.answered`` is called with what it says."""

    def done(self, session: Hashable, name: str, key: MessageKey) -> None:
        """Tell that the member has the message for good."""

    def free(self, session: Hashable, name: str, key: MessageKey) -> None:
        """Tell that the member, which was granted the message, is not to have it."""

    def declined(self, name: str, key: MessageKey) -> None:
        """Tell that no member here can take what was offered."""

    def had(self, name: str, keys: list[MessageKey]) -> None:
        """Tell a new first worker that these have been taken here."""

    def holds(self, session: Hashable, name: str, key: MessageKey) -> None:
        """Tell a new first worker that the member was granted the message, and does not have it for good yet."""


class AskingShare(Share):
    """``_asked`` are messages that were asked for, with the member that has asked and others that look at it;
    ``_granted`` those that a member has been granted and has not for good yet."""

    __slots__ = ("_asked", "_first", "_granted", "_left")

    def __init__(self, name: str, first: FirstWorker) -> None:
        super().__init__(name)
        self._first = first
        self._asked: dict[MessageKey, dict[Hashable, None]] = {}
        self._granted: dict[MessageKey, Hashable] = {}
        self._left: dict[MessageKey, None] = {}  # what members here have had, the newest last

    def join(self, session: Hashable, member: Member) -> None:
        super().join(session, member)
        self._first.joined(session, self.name, member.level)

    def is_late(self, session: Hashable) -> None:
        """Note that nobody was connected anywhere for some of the time for which the member was away."""
        self._late.add(session)

    def part(self, session: Hashable) -> None:
        """End the membership here of a session that goes; what it was granted and has not looked at is free."""
        self._go(session)
        for key in [key for key, taker in self._granted.items() if taker == session]:
            del self._granted[key]  # the first worker knows of them
        super().leave(session)

    def leave(self, session: Hashable) -> None:
        if session in self._members:
            self._go(session)
            self._first.quit(session, self.name)
        super().leave(session)

    def _go(self, session: Hashable) -> None:
        for key, looking in list(self._asked.items()):
            if next(iter(looking)) == session:
                del self._asked[key]
                self._wake([other for other in looking if other != session])
            else:
                looking.pop(session, None)
        for key in [key for key, taker in self._granted.items() if taker == session == self._taken.get(key)]:
            del self._granted[key], self._taken[key]
            self._first.free(session, self.name, key)

    def ask(self, session: Hashable, key: MessageKey, now: int, *, full: bool) -> Turn:
        looking = self._asked.get(key)
        if looking is not None and key not in self._taken:
            looking[session] = None
            return Turn.ASKED
        return super().ask(session, key, now, full=full)

    def look_ahead(self, session: Hashable, key: MessageKey, now: int) -> None:
        if key not in self._taken and key not in self._asked:
            self._grant(session, key, now)

    def _grant(self, session: Hashable, key: MessageKey, now: int) -> Turn:
        self._waits.pop(session, None)
        self._count, self._last = self._count + 1, now
        self._asked[key] = {session: None}
        self._first.ask(session, self.name, key)
        return Turn.ASKED

    def answered(self, session: Hashable, key: MessageKey, *, taken: bool) -> None:
        """Take the first worker's answer whether the member that has asked gets the message."""
        looking = self._asked.get(key)
        if looking is None or next(iter(looking)) != session:
            if taken:  # the member has gone meanwhile; where it has come back it asks again
                self._first.free(session, self.name, key)
            return
        del self._asked[key]
        self._note(session if taken else _ELSEWHERE, key)
        if taken:
            self._granted[key] = session
        self._wake(looking)

    def left(self, key: MessageKey) -> None:
        super().left(key)
        self._left[key] = None
        if len(self._left) > RETOLD_MAX:
            del self._left[next(iter(self._left))]

    def done(self, key: MessageKey) -> None:
        session = self._granted.pop(key, None)
        if session is not None:
            self._first.done(session, self.name, key)

    def give_back(self, loan: Loan) -> None:
        self._taken.pop(loan.key, None)
        self._left.pop(loan.key, None)
        session = self._granted.pop(loan.key, None)
        if session is not None:
            self._first.free(session, self.name, loan.key)

    def offered(self, loan: Loan) -> None:
        """Offer a message of the first worker that was somebody's and is free again."""
        self._taken.pop(loan.key, None)
        self._left.pop(loan.key, None)
        self._offer(loan)

    def _unwanted(self, loan: Loan) -> None:
        self._bytes -= len(loan.record)
        self._first.declined(self.name, loan.key)

    def tell_again(self) -> None:
        """Tell all of this group again to a new first worker, which knows nothing of it."""
        for session, member in self._members.items():
            if member is not None:
                self._first.joined(session, self.name, member.level)
        self._first.had(self.name, list(self._left))
        for key, taker in self._granted.items():
            self._first.holds(taker, self.name, key)
        for key, looking in self._asked.items():
            self._first.ask(next(iter(looking)), self.name, key)
