"""Shared subscriptions: of each message one member of the group takes it, and no message is nobody's (5: 4.8.2).

Every member is offered every message, as its rights and its place among the subjects allow, and says as the record is
about to leave whether it takes it. Whose turn it is takes what is free; another one waits for a moment, and takes it
then if it is still free: so nobody has to know what another member can see.

A member that is away is asked nothing: what nobody has taken is there for it when it comes back. What it took and has
not acknowledged is offered to the others when its session ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from typing import NamedTuple

TAKEN_MAX = 10_000
"""Messages of which a group knows who took them; what is read again from further back can come twice."""

TURN_MAX = 16
"""Messages that one member takes in a row when many come at once."""

SHARES_MAX = 1000
"""Groups of one process."""

RETURNED_MAX = 1000
"""Messages of a group that wait for somebody who can take them, after whoever had them has gone."""

RETURNED_BYTES_MAX = 4 << 20
"""The same in bytes; a single one may be larger."""

MessageKey = tuple[int, int, int]
"""A message: subject id, epoch, sequence number."""


class Turn(Enum):
    """What becomes of a message that a member looks at; a member that is to WAIT looks again."""

    TAKE = 1
    SKIP = 2
    WAIT = 3


class Member(NamedTuple):
    """A connected member: ``ready`` says whether it can take a message now; ``offer`` hands it a record, and says
    whether it may have it."""

    level: int
    ready: Callable[[], bool]
    offer: Callable[[bytes], bool]


class Loan(NamedTuple):
    """A message that a member has taken and not acknowledged, as its record for clients of that ``level``."""

    share: Share
    key: MessageKey
    level: int
    record: bytes


class Share:
    """One group: all who have subscribed to the same filter under the same name; ``None`` stands for one that is away.

    ``returned`` are messages whose taker has gone, and that nobody who is connected can take. Those that wait with
    somebody for its turn come back here if it goes before.
    """

    __slots__ = (
        "_away",
        "_bytes",
        "_count",
        "_deserted",
        "_here",
        "_last",
        "_late",
        "_members",
        "_offered",
        "_taken",
        "_waits",
        "name",
        "returned",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.returned: deque[Loan] = deque()
        self._offered: dict[MessageKey, tuple[Loan, set[Hashable]]] = {}  # and who has them
        self._bytes = 0  # of both
        self._members: dict[Hashable, Member | None] = {}  # whose turn it is comes first
        self._taken: dict[MessageKey, Hashable] = {}
        self._waits: dict[Hashable, MessageKey] = {}
        self._count = 0  # how many the first has taken in its turn, and when it took the last (ms)
        self._last = 0
        self._here = 0  # members that are connected
        self._deserted = 0  # how often the last one of these has gone
        self._away: dict[Hashable, int] = {}  # and how often it had when this one went
        self._late: set[Hashable] = set()  # who has come back to a group that was deserted meanwhile

    @property
    def empty(self) -> bool:
        """Whether nobody is a member any more."""
        return not self._members

    def join(self, session: Hashable, member: Member) -> None:
        """The session is a member, and connected."""
        self._here += self._members.get(session) is None
        self._members[session] = member
        if self._away.pop(session, self._deserted) != self._deserted:
            self._late.add(session)

    def was_deserted(self, session: Hashable) -> bool:
        """Whether nobody was connected for some of the time for which the member is, or was, away: what came then was
        left to it. While others are there they take what comes."""
        return self._away.get(session, self._deserted) != self._deserted or session in self._late

    def keep(self, session: Hashable) -> None:
        """The session is a member, and away."""
        self._members[session] = None
        self._away[session] = -1

    def part(self, session: Hashable) -> None:
        """The member is away, and may come back."""
        if self._members.get(session) is not None:
            self._members[session] = None
            self._away[session] = self._deserted
            self._went(session)
        self._waits.pop(session, None)
        self._take_back(session)

    def leave(self, session: Hashable) -> None:
        """The session is no member any more."""
        if self._members.pop(session, None) is not None:
            self._went(session)
        self._away.pop(session, None)
        self._waits.pop(session, None)
        self._take_back(session)

    def _went(self, session: Hashable) -> None:
        self._late.discard(session)
        self._here -= 1
        self._deserted += not self._here

    def ask(self, session: Hashable, key: MessageKey, now: int, *, full: bool) -> Turn:
        """The member looks at a message; ``full`` if it cannot take any more at present."""
        taker = self._taken.get(key)
        if taker is not None:
            return Turn.TAKE if taker is session else Turn.SKIP
        if full:
            return Turn.WAIT
        if self._turn(now) is not session and self._waits.get(session) != key:
            self._waits[session] = key
            return Turn.WAIT
        self._waits.pop(session, None)
        self._taken[key] = session
        if key in self._offered:
            self._bytes -= len(self._offered.pop(key)[0].record)
        if len(self._taken) > TAKEN_MAX:
            del self._taken[next(iter(self._taken))]
        self._count, self._last = self._count + 1, now
        return Turn.TAKE

    def give_back(self, loan: Loan) -> None:
        """The member that took the message has gone for good: somebody else takes it."""
        self._taken.pop(loan.key, None)
        self._offer(loan)

    def offer_returned(self) -> None:
        """Offer what waits for somebody to those who are connected now."""
        for _ in range(len(self.returned)):
            loan = self.returned.popleft()
            self._bytes -= len(loan.record)
            self._offer(loan)

    def _offer(self, loan: Loan) -> None:
        if loan.key in self._offered:
            return
        members = [(session, one) for session, one in self._members.items() if one and one.level == loan.level]
        takers = {session for session, one in members if one.offer(loan.record)}
        if takers:
            self._offered[loan.key] = loan, takers
        else:
            self.returned.append(loan)
        self._bytes += len(loan.record)
        while (count := len(self.returned) + len(self._offered)) > RETURNED_MAX or (
            count > 1 and self._bytes > RETURNED_BYTES_MAX
        ):
            oldest = self.returned.popleft() if self.returned else self._offered.pop(next(iter(self._offered)))[0]
            self._bytes -= len(oldest.record)

    def _take_back(self, session: Hashable) -> None:
        """The member does not take any more what it was offered: what nobody else has is for whoever can take it."""
        for key, (loan, takers) in list(self._offered.items()):
            takers.discard(session)
            if not takers:
                del self._offered[key]
                self.returned.append(loan)

    def _turn(self, now: int) -> Hashable | None:
        """Whose turn it is: the next one's as soon as this one has taken something a moment ago, or enough at once."""
        if self._count and (now != self._last or self._count >= TURN_MAX):
            self._next()
        for _ in range(len(self._members)):
            session, member = next(iter(self._members.items()))
            if member is not None and member.ready():
                return session
            self._next()
        return None

    def _next(self) -> None:
        session = next(iter(self._members), None)
        if session is not None:
            self._members[session] = self._members.pop(session)
        self._count = 0


class Shares:
    """All groups of one process."""

    __slots__ = ("_shares",)

    def __init__(self) -> None:
        self._shares: dict[str, Share] = {}

    def find(self, text: str) -> Share | None:
        """The group of that name and filter, as in ``$share/NAME/FILTER``; None when there are too many."""
        found = self._shares.get(text)
        if found is None and len(self._shares) < SHARES_MAX:
            found = self._shares[text] = Share(text)
        return found

    def leave(self, share: Share, session: Hashable) -> None:
        """The session is no member of the group any more, which ends with its last member."""
        share.leave(session)
        if share.empty and self._shares.get(share.name) is share:
            del self._shares[share.name]

    def second(self) -> None:
        """A second has passed: those who have come since may take what was given back."""
        for share in self._shares.values():
            if share.returned:
                share.offer_returned()
