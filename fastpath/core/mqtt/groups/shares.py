"""Shared subscriptions: of each message one member of the group takes it, and no message is nobody's (5: 4.8.2).

Every member is offered every message, as its rights and its place among the subjects allow, and says as the record is
about to leave whether it takes it. Whose turn it is takes what is free; another one waits for a moment, and takes it
then if it is still free: so nobody has to know what another member can see.

A member that is away is asked nothing: what nobody has taken is there for it when it comes back. What it took and has
not acknowledged is offered to the others when its session ends.

With several workers the first one has the groups. What its own clients look at is decided at once; the others ask for
each message once, on behalf of the one of their members whose turn it is (guests.py, asking.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
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

YIELD_MS = 20
"""Milliseconds for which a message is left to a worker whose turn it is; one that has not asked for it by then is
passed over until it asks for another one."""

RETRY_SECONDS = 10
"""Seconds after which other workers are asked again to take what nobody could, if nobody has come meanwhile."""

HERE = -1
"""The place of members that are this process' clients; other places are the numbers of workers."""

MessageKey = tuple[str, int, int]
"""A message: subject, epoch, sequence number."""

_GONE = "gone"
"""Stands for whoever has taken a message that has left: nobody takes it any more."""


class Turn(Enum):
    """The turn of a member that looks at a message: it takes it, leaves it, or looks again: in the next turn of the
    loop (WAIT), when it is woken or after ``YIELD_MS`` (YIELD), or when it is woken (ASKED)."""

    TAKE = 1
    SKIP = 2
    WAIT = 3
    YIELD = 4
    ASKED = 5


def _asleep() -> None:
    """Wake nobody."""


class Member(NamedTuple):
    """A connected member: ``ready`` says whether it can take a message now, ``offer`` hands it one, and says whether it
    may have it, and ``wake`` has it look again at what waits for it."""

    level: int
    ready: Callable[[], bool]
    offer: Callable[[Loan], bool]
    place: int = HERE
    wake: Callable[[], None] = _asleep


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
        "_abroad",
        "_away",
        "_bytes",
        "_count",
        "_deserted",
        "_here",
        "_lagging",
        "_last",
        "_late",
        "_members",
        "_news",
        "_offered",
        "_quiet_seconds",
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
        self._waits: dict[Hashable, tuple[MessageKey, int]] = {}  # and since when (ms)
        self._count = 0  # how many the first has taken in its turn, and when it took the last (ms)
        self._last = 0
        self._here = 0  # members that are connected, wherever
        self._abroad = 0  # of these are other workers' clients
        self._lagging: set[int] = set()  # workers for which nobody waits, as they did not ask in their turn
        self._news = False  # somebody has joined
        self._quiet_seconds = 0
        self._deserted = 0  # how often the last one of these has gone
        self._away: dict[Hashable, int] = {}  # and how often it had when this one went
        self._late: set[Hashable] = set()  # who has come back to a group that was deserted meanwhile

    @property
    def empty(self) -> bool:
        """True if nobody is a member any more."""
        return not self._members

    def join(self, session: Hashable, member: Member) -> None:
        """Enter the session as a member that is connected."""
        before = self._members.get(session)
        self._here += before is None
        self._abroad += (member.place != HERE) - (before is not None and before.place != HERE)
        self._members[session] = member
        self._news = True
        if self._away.pop(session, self._deserted) != self._deserted:
            self._late.add(session)

    def was_deserted(self, session: Hashable) -> bool:
        """Return whether nobody was connected for some of the time for which the member is, or was, away: what came
        then was left to it. While others are there they take what comes."""
        return self._away.get(session, self._deserted) != self._deserted or session in self._late

    def keep(self, session: Hashable) -> None:
        """Keep the session as a member that is away."""
        self._members[session] = None
        self._away[session] = -1

    def part(self, session: Hashable) -> None:
        """Note that the member is away, and may come back."""
        member = self._members.get(session)
        if member is not None:
            self._members[session] = None
            self._away[session] = self._deserted
            self._went(session, member)
        self._waits.pop(session, None)
        self._take_back(session, member)

    def leave(self, session: Hashable) -> None:
        """End the session's membership."""
        member = self._members.pop(session, None)
        if member is not None:
            self._went(session, member)
        self._away.pop(session, None)
        self._waits.pop(session, None)
        self._take_back(session, member)

    def _went(self, session: Hashable, member: Member) -> None:
        self._late.discard(session)
        self._abroad -= member.place != HERE
        self._here -= 1
        self._deserted += not self._here

    def ask(self, session: Hashable, key: MessageKey, now: int, *, full: bool) -> Turn:
        """Answer a member that looks at a message; ``full`` if the member cannot take any more at present."""
        taker = self._taken.get(key)
        if taker is not None:
            return Turn.TAKE if taker == session else Turn.SKIP
        if full:
            return Turn.WAIT
        return self._wait(session, key, now) or self._grant(session, key, now)

    def _wait(self, session: Hashable, key: MessageKey, now: int) -> Turn | None:
        """Return how the member waits, if it is another's turn; None if the member has waited enough, or need not."""
        mine, first = self._place_of(session), self._turn(now)
        self._lagging.discard(mine)
        place = self._place_of(first)
        if first == session or place == mine != HERE:
            return None
        before, since = self._waits.get(session, (None, 0))
        if before != key:
            self._waits[session] = key, now
            return Turn.WAIT if place == HERE else Turn.YIELD
        if place == HERE:
            return None
        if 0 <= now - since < YIELD_MS:
            return Turn.YIELD
        self._lagging.add(place)
        return None

    def _grant(self, session: Hashable, key: MessageKey, now: int) -> Turn:
        """Give the message to the member, and tell those who have left it to others."""
        self._waits.pop(session, None)
        self._note(session, key)
        self._count, self._last = self._count + 1, now
        if self._abroad:
            self._wake([other for other, (waited, _) in self._waits.items() if waited == key])
        return Turn.TAKE

    def _note(self, taker: Hashable, key: MessageKey) -> None:
        self._taken.pop(key, None)
        self._taken[key] = taker
        if key in self._offered:
            self._bytes -= len(self._offered.pop(key)[0].record)
        if len(self._taken) > TAKEN_MAX:
            del self._taken[next(iter(self._taken))]

    def _wake(self, sessions: Iterable[Hashable]) -> None:
        for session in sessions:
            member = self._members.get(session)
            if member is not None:
                member.wake()

    def _place_of(self, session: Hashable) -> int:
        member = self._members.get(session)
        return member.place if member is not None else HERE

    def look_ahead(self, session: Hashable, key: MessageKey, now: int) -> None:
        """Note that the member looks at this message soon; a group that has to be asked elsewhere is asked now."""

    def hold(self, session: Hashable, key: MessageKey) -> None:
        """Keep for the member a message that it took before, and has not acknowledged: the message is nobody else's."""
        self._note(session, key)

    def left(self, key: MessageKey) -> None:
        """Note that the message has left for whoever took it: offered to that one twice, it does not leave again."""
        self._note(_GONE, key)

    def done(self, key: MessageKey) -> None:
        """Note that whoever took the message has it for good, or does not need it."""

    def give_back(self, loan: Loan) -> None:
        """Offer a message to others whose taker has gone for good."""
        self._taken.pop(loan.key, None)
        self._offer(loan)

    def offer_returned(self) -> None:
        """Offer what waits for somebody to those who are connected now; other workers have said no, and are asked again
        when somebody has come, or now and then."""
        self._quiet_seconds += 1
        everywhere = self._news or self._quiet_seconds >= RETRY_SECONDS
        if everywhere:
            self._quiet_seconds = 0
        self._news = False
        for _ in range(len(self.returned)):
            loan = self.returned.popleft()
            self._bytes -= len(loan.record)
            self._offer(loan, everywhere=everywhere)

    def _offer(self, loan: Loan, *, everywhere: bool = True) -> None:
        if loan.key in self._offered:
            return
        takers: set[Hashable] = set()
        for session, one in list(self._members.items()):
            if one is None or one.level != loan.level:
                continue
            taker = session if one.place == HERE else one.place
            if taker not in takers and (everywhere or one.place == HERE) and one.offer(loan):
                takers.add(taker)
        self._bytes += len(loan.record)
        if takers:
            self._offered[loan.key] = loan, takers
        else:
            self._unwanted(loan)
        while (count := len(self.returned) + len(self._offered)) > RETURNED_MAX or (
            count > 1 and self._bytes > RETURNED_BYTES_MAX
        ):
            oldest = self.returned.popleft() if self.returned else self._offered.pop(next(iter(self._offered)))[0]
            self._bytes -= len(oldest.record)

    def _unwanted(self, loan: Loan) -> None:
        """Keep a message that nobody who is connected can take."""
        self.returned.append(loan)

    def decline(self, place: int, key: MessageKey) -> None:
        """Note that no member on that worker can take what was offered there."""
        self._refuse(place, key)

    def _refuse(self, taker: Hashable, key: MessageKey) -> None:
        loan, takers = self._offered.get(key, (None, set()))
        takers.discard(taker)
        if loan is not None and not takers:
            del self._offered[key]
            self._unwanted(loan)

    def _take_back(self, session: Hashable, member: Member | None) -> None:
        """Take back what the member was offered, and does not take any more: what nobody else has is for whoever can
        take it."""
        taker = session
        if member is not None and member.place != HERE:
            if any(one is not None and one.place == member.place for one in self._members.values()):
                return
            taker = member.place
            self._lagging.discard(member.place)
        for key in list(self._offered):
            self._refuse(taker, key)

    def _turn(self, now: int) -> Hashable | None:
        """Return whose turn it is: the next one's as soon as this one has taken something a moment ago, or enough at
        once."""
        if self._count and (now != self._last or self._count >= TURN_MAX):
            self._next()
        for _ in range(len(self._members)):
            session, member = next(iter(self._members.items()))
            if member is not None and self._is_ready(member):
                return session
            self._next()
        return None

    def _is_ready(self, member: Member) -> bool:
        return member.ready() if member.place == HERE else member.place not in self._lagging

    def _next(self) -> None:
        session = next(iter(self._members), None)
        if session is not None:
            self._members[session] = self._members.pop(session)
        self._count = 0


class Shares:
    """All groups of one process."""

    __slots__ = ("_make", "_shares")

    def __init__(self, make: Callable[[str], Share] = Share) -> None:
        self._make = make
        self._shares: dict[str, Share] = {}

    def __iter__(self) -> Iterator[Share]:
        return iter(list(self._shares.values()))

    def find(self, text: str) -> Share | None:
        """Return the group of that name and filter, as in ``$share/NAME/FILTER``; None when there are too many."""
        if text not in self._shares and len(self._shares) >= SHARES_MAX:
            return None
        return self.open(text)

    def open(self, text: str) -> Share:
        """Return the same group, however many there are: another worker, which bounds its own, has a member of it."""
        found = self._shares.get(text)
        if found is None:
            found = self._shares[text] = self._make(text)
        return found

    def get(self, text: str) -> Share | None:
        """Return the group, if it has members."""
        return self._shares.get(text)

    def leave(self, share: Share, session: Hashable) -> None:
        """End the session's membership of the group, which ends with its last member."""
        share.leave(session)
        if share.empty and self._shares.get(share.name) is share:
            del self._shares[share.name]

    def second(self) -> None:
        """Offer what was given back to those who have come since, as a second has passed."""
        for share in self._shares.values():
            if share.returned:
                share.offer_returned()
