"""Members of groups that are on other workers, as the first worker has them: it grants each message to one of all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

from .shares import YIELD_MS, Loan, Member, MessageKey, Share, Shares, Turn

Holder = tuple[int, int]
"""A worker that has a session, and its number for it."""


class Granted(NamedTuple):
    """A message that a member on another worker was granted, by the group's name, and has not for good yet."""

    name: str
    key: MessageKey


class OtherWorkers(Protocol):
    """The way to the other workers."""

    def answer(self, holder: Holder, name: str, key: MessageKey, *, taken: bool) -> None:
        """Say whether the member that has asked for the message gets it."""

    def offer(self, worker: int, loan: Loan) -> None:
        """Offer a message to the members there; ``GuestMembers.decline`` is called if none can take it."""

    def record(self, key: MessageKey, level: int) -> bytes | None:
        """Return the message as a record for clients of that level; None if it is in the log no more."""

    def look_again(self, ms: int) -> None:
        """Have ``GuestMembers.look`` called in so long; 0: in the next turn of the loop."""


class _GroupGuest:
    """A session on another worker: who it is among the members, its level, its groups, and what it has of these."""

    __slots__ = ("granted", "groups", "level", "session")

    def __init__(self, session: Hashable, level: int) -> None:
        self.session = session
        self.level = level
        self.groups: dict[str, Share] = {}
        self.granted: dict[Granted, None] = {}


class GuestMembers:
    """The members on other workers. What they ask for is decided in the order in which it was asked; where a member has
    to wait, what it asks for behind that waits with it."""

    def __init__(self, shares: Shares, others: OtherWorkers) -> None:
        self._shares = shares
        self._others = others
        self._lent: dict[Holder, _GroupGuest] = {}
        self._asked: dict[tuple[Holder, str], deque[MessageKey]] = {}

    def join(self, holder: Holder, session: Hashable, name: str, level: int) -> None:
        """Enter that session, which is lent, as a member that is connected."""
        lent = self._lent.get(holder)
        if lent is None:
            lent = self._lent[holder] = _GroupGuest(session, level)
        share = lent.groups[name] = self._shares.open(name)
        worker = holder[0]

        def offer(loan: Loan) -> bool:
            self._others.offer(worker, loan)
            return True

        share.join(lent.session, Member(level, lambda: True, offer, worker, lambda: self._others.look_again(0)))

    def quit(self, holder: Holder, name: str) -> None:
        """End the session's membership of the group."""
        lent = self._lent.get(holder)
        share = lent.groups.pop(name, None) if lent is not None else None
        if lent is not None and share is not None:
            self._asked.pop((holder, name), None)
            self._shares.leave(share, lent.session)

    def part(self, holder: Holder, *, stays: bool, has: Callable[[Granted], bool] = lambda granted: False) -> None:
        """Note that the session is not on that worker any more; whether it ``stays`` a member.

        What the session has not for good is its own still if it stays and ``has`` it, and else is for the others, as
        what was on its way when its client went.
        """
        lent = self._lent.pop(holder, None)
        if lent is None:
            return
        for name, share in lent.groups.items():
            self._asked.pop((holder, name), None)
            if stays:
                share.part(lent.session)
            else:
                self._shares.leave(share, lent.session)
        for one in lent.granted:
            if not (stays and has(one)):
                self.give_back(one, lent.level)

    def ask(self, holder: Holder, name: str, key: MessageKey) -> None:
        """Note that a member looks at a message, and can take it; ``look`` decides."""
        if holder in self._lent:
            self._asked.setdefault((holder, name), deque()).append(key)

    def look(self, now: int) -> None:
        """Decide what can be decided by now (ms)."""
        waits = None
        for at, keys in list(self._asked.items()):
            verdict = self._decide(*at, keys, now)
            if not keys:
                self._asked.pop(at, None)
            if verdict is not None and waits is not Turn.WAIT:
                waits = verdict
        if waits is not None:
            self._others.look_again(0 if waits is Turn.WAIT else YIELD_MS)

    def _decide(self, holder: Holder, name: str, keys: deque[MessageKey], now: int) -> Turn | None:
        lent = self._lent[holder]
        share = lent.groups.get(name)
        while keys:
            verdict = share.ask(lent.session, keys[0], now, full=False) if share is not None else Turn.SKIP
            if verdict not in (Turn.TAKE, Turn.SKIP):
                return verdict
            key = keys.popleft()
            if verdict is Turn.TAKE:
                lent.granted[Granted(name, key)] = None
            self._others.answer(holder, name, key, taken=verdict is Turn.TAKE)
        return None

    def done(self, holder: Holder, name: str, key: MessageKey) -> None:
        """Note that the member has the message for good."""
        lent = self._lent.get(holder)
        if lent is not None and lent.granted.pop(Granted(name, key), self) is None:
            share = self._shares.get(name)
            if share is not None:
                share.left(key)
                share.done(key)

    def free(self, holder: Holder, name: str, key: MessageKey) -> None:
        """Take back from the member what it was granted, and is not to have."""
        lent = self._lent.get(holder)
        if lent is not None and lent.granted.pop(Granted(name, key), self) is None:
            self.give_back(Granted(name, key), lent.level)

    def had(self, name: str, keys: list[MessageKey]) -> None:
        """Note messages that were taken on another worker before this one was the first."""
        share = self._shares.get(name)
        for key in keys if share is not None else ():
            assert share is not None
            share.left(key)

    def hold(self, holder: Holder, name: str, key: MessageKey) -> None:
        """Keep for the member a message that it was granted before this worker was the first."""
        lent = self._lent.get(holder)
        share = lent.groups.get(name) if lent is not None else None
        if lent is not None and share is not None:
            share.hold(lent.session, key)
            lent.granted[Granted(name, key)] = None

    def decline(self, worker: int, name: str, key: MessageKey) -> None:
        """Note that nobody on that worker can take what was offered there."""
        share = self._shares.get(name)
        if share is not None:
            share.decline(worker, key)

    def give_back(self, granted: Granted, level: int) -> None:
        """Offer a message to the members of its group, as far as the log has it."""
        share = self._shares.get(granted.name)
        if share is not None and not share.empty:
            record = self._others.record(granted.key, level)
            if record is not None:
                share.give_back(Loan(share, granted.key, level, record))
            else:
                share.left(granted.key)
                share.done(granted.key)
