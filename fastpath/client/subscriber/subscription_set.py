"""The subjects and patterns a client is subscribed to, over all its connections, and who hears of which; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET

from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol.messages import Result, Subscribe
from fastpath.core.protocol.subject import check_pattern, check_subject, is_reserved, is_wildcard

from ..message import Position

SUBJECTS_PER_COMMAND = 500
"""Number of subjects in a command: half of what a server takes, and fewer where the frame would be too large."""

POSITIONS_PER_PATTERN = 2000
"""Number of positions that a command has for a pattern, and fewer where the frame would be too large."""

NOTHING = Position(0, 0)
"""Position of a reader who has read nothing of what was promised."""

T = TypeVar("T")


class Wish(NamedTuple):
    """An interval in ms, and what to do while the client does not keep up."""

    conflation: int
    slow: str


def served(wishes: Iterable[Wish]) -> Wish:
    """Return the wish that serves all of them: the shortest interval, and a queue where one of them wants each
    message."""
    every = list(wishes)
    return Wish(
        min(wish.conflation for wish in every), "close" if "close" in {wish.slow for wish in every} else "conflate"
    )


@dataclass(slots=True, eq=False)
class Newcomer:
    """Owners who are to be led in together; ``joined``: by a pattern that had found the subject."""

    owners: list[Any]
    history: int
    since: Position | None
    joined: bool = False

    def begins_as(self, other: Newcomer) -> bool:
        """Return True when both begin with the same."""
        return (self.history, self.since, self.joined) == (other.history, other.since, other.joined)


@dataclass(slots=True, eq=False)
class ClientSubscription:
    """A subscription to a subject.

    While it is ``lagging`` gaps are no fault (protocol.md 5.3); while it ``waits`` the server has not begun it.

    ``owners`` are those who are led in, and hear of it when it has ``begun``: they subscribed to the subject itself, or
    joined a pattern (``joined``) that had found it. One after the other: who comes meanwhile is ``waiting``, and who is
    level with all others is ``settled``. Without any of them, patterns found it. ``held``: the server has it as a
    subscription of its own, though nobody wants it by its name. ``wishes`` are the intervals, and what to do while the
    client does not keep up, of those who subscribed to the subject itself: what serves all of them is asked for.

    ``position`` is the last that was read. While ``stored`` messages are still to come it lags behind
    ``target``, where live messages begin, so that a connection lost between them misses nothing. They are ``private``
    where others follow the subject already: the new owners alone get them, from ``since`` on. ``own`` is the last that
    they read, while it is another than the others': a connection that is lost then is followed by one that goes on from
    the lower of the two, and each hears what it has not read. Owners who had read nothing are ``owed`` the beginning:
    it is asked for when the others have gone on.
    """

    subject: str
    owners: list[Any]
    history: int
    conflation: int
    slow: str
    since: Position | None
    position: Position | None
    held: bool = False
    joined: bool = False
    settled: list[Any] = field(default_factory=list)
    waiting: list[Newcomer] = field(default_factory=list)
    wishes: dict[Any, Wish] = field(default_factory=dict)
    begun: bool = False
    private: bool = False
    own: Position | None = None
    owed: bool = False
    asked: int = 0
    live: bool = False
    waits: bool = False
    tries: int = 0
    lagging: bool = False
    sid: int = -1
    epoch: int = 0
    interval: int = 0
    stored: int = 0
    target: Position | None = None
    hearers: tuple[Any, ...] = ()
    hearers_at: int = -1

    @property
    def plain(self) -> bool:
        """True when the subject is asked for by its own name, not by a pattern's."""
        return bool(self.owners or self.settled or self.held)

    @property
    def joining(self) -> bool:
        """True while somebody is led in who joined a pattern: the server is to have it by its name."""
        return bool(self.owners and self.joined) or any(one.joined for one in self.waiting)

    @property
    def level(self) -> bool:
        """True when nobody is being led in: all who hear of it have read the same."""
        return not self.owners or (self.begun and self.own is None and not (self.owed or (self.live and self.stored)))

    @property
    def after(self) -> Position | None:
        """The position to go on from; None: from the beginning, as it was asked for."""
        return self.since if self.live else self.last

    @property
    def last(self) -> Position | None:
        """The position up to which everybody who follows the subject has read it."""
        return self.position if self.own is None or self.position is None else min(self.own, self.position)

    def begin(self, result: Result, own: bool, asked: bool) -> None:
        """Take the server's answer that the subscription has begun; ``own``: by the subject's name; ``asked``: just
        now."""
        goes_on = self._goes_on(result)
        if asked or not own:
            self.private = asked and self.live
        self.owed = self.owed and (not own or result.recovery == "recovered")
        if asked and self.live:
            self.own = self.since or (self.position if result.recovery == "recovered" else None) or NOTHING
        elif not (goes_on or self.private):
            self.own = None
        found = result.recovery == "recovered" and self.position is None and not (self.private or result.conflation)
        if found and result.epoch is not UNSET and result.seq is not UNSET:
            # A pattern that came back has found it: all of it follows.
            self.position = Position(result.epoch, result.seq - result.messages)
        last = (self.position if self.private else self.last) if goes_on else None
        self.sid = -1 if result.sid is UNSET else result.sid
        self.begun = self.begun or (own and not self.owed)
        self.live, self.waits, self.lagging, self.tries = True, False, False, 0
        self.epoch = 0 if result.epoch is UNSET else result.epoch
        self.interval = result.conflation
        # Longer than what was asked for is what the subject's options want (features.md C7), as long as they do.
        self.conflation = min(self.conflation, self.interval)
        self.target = None if result.seq is UNSET else Position(self.epoch, result.seq)
        if last is not None and self.target is not None:
            follow = result.messages if result.recovery == "recovered" and not self.private else 0
            self.target = Position(self.epoch, min(self.target.seq, last.seq + follow))
        self.stored = result.messages
        if not self.stored:
            self.stored_over()

    def _goes_on(self, result: Result) -> bool:
        """Return True when a reader goes on from what was read, and so is told of a gap: the answer may stand behind
        messages that a right took away with its end (protocol.md 4.7)."""
        if result.recovery or not self.live:
            return result.recovery == "recovered"
        return not result.messages or not (self.interval or self.lagging)

    def read(self, seq: int, anew: bool = False) -> tuple[bool, bool]:
        """Note that a message was read; return True for the owner and for the others if it is new to them. ``anew``: to
        all."""
        at, own, others = Position(self.epoch, seq), self.own or self.position, self.position
        by_owner = anew or own is None or own < at
        by_others = not self.private and (anew or others is None or others < at)
        self.position = at if by_others else others
        own = at if by_owner else own
        self.own = None if own == self.position else own
        return by_owner, by_others

    def stored_over(self) -> None:
        """Begin with live messages: all stored ones have come."""
        self.stored, self.private = 0, False
        target, self.target = self.target, None
        if target is None:
            return
        own, others = max(self.own or target, target), max(self.position or target, target)
        self.position = others if self.own else target
        self.own = own if self.own and own != others else None

    def interrupt(self) -> None:
        """Give up the stored messages that were still to come."""
        if self.own == NOTHING:
            self.own, self.owed = None, self.position is not None
            self.begun = not self.owed
        elif self.position is None:
            self.position, self.own = self.own, None
        self.private = False

    def join(self) -> None:
        """Have a new owner go on from ``since``, with the others or apart from them, before the server has answered."""
        if self.owners and not self.begun and self.since is not None:
            others = self.position or self.since
            self.position, self.own = others, None if others == self.since else self.since

    def lead_in(self, newcomer: Newcomer) -> bool:
        """Lead somebody in, now or in turn; whether the server is to be asked."""
        if self._shares(newcomer):
            self.owners += newcomer.owners
            return self.waits  # it says again what is missing
        if not self.level:
            self.waiting.append(newcomer)
            return False
        self.settle()
        self.owners, self.history, self.since = newcomer.owners, newcomer.history, newcomer.since
        self.joined, self.begun, self.own = newcomer.joined, False, None
        # While nothing comes, the others go on first: what the newcomer begins with is asked for when they have.
        self.owed = not self.live and self.since is None and self.position is not None
        if not self.live:
            self.join()
        return True

    def next(self) -> bool:
        """Lead in who is waiting, when it is its turn; whether the server is to be asked."""
        if not (self.waiting and self.level):
            return False
        first = self.waiting.pop(0)
        alike = [one for one in self.waiting if one.begins_as(first)]
        self.waiting = [one for one in self.waiting if one not in alike]
        first.owners += [owner for one in alike for owner in one.owners]
        return self.lead_in(first)

    def settle(self) -> None:
        """Make those who were led in owners like all others."""
        if self.owners and self.joined:
            self.held = self.held or self.live
        else:
            self.settled += self.owners
        self.owners = []

    def leave(self, owner: Any) -> None:
        """Let go of somebody, wherever he is."""
        led = owner in self.owners
        for some in (self.owners, self.settled, *(one.owners for one in self.waiting)):
            if owner in some:
                some.remove(owner)
        self.waiting = [one for one in self.waiting if one.owners]
        if led and not self.owners:
            self.give_up()

    def give_up(self) -> None:
        """Lead nobody in any more: what was on its way to the newcomers alone is nobody's."""
        self.held = self.held or (self.joined and self.live)
        self.owners, self.own, self.owed = [], None, False

    def _shares(self, newcomer: Newcomer) -> bool:
        """Return True if a newcomer gets the very answer that those who are led in wait for."""
        unread = not (self.begun or self.live or self.private) and self.position is None
        alike = self.history == newcomer.history and self.since == newcomer.since
        return bool(self.owners) and unread and alike and self.joined == newcomer.joined

    def end(self) -> None:
        """Let the subscription wait, as the right is gone. If the right comes back with another connection, nothing is
        missed."""
        self.interrupt()
        self.live, self.waits, self.lagging = False, True, False
        self.target, self.stored = None, 0


@dataclass(slots=True, eq=False)
class Pattern:
    """A pattern, which has the name ``subject`` on the wire, and its owners with what each wishes.

    When it ``resumes``, the subjects that the client does not know came to be while it was away (protocol.md 3.8).
    ``rights``: how much of it may be read, where it is not all.
    """

    subject: str
    wishes: dict[Any, Wish]
    history: int
    conflation: int
    slow: str
    resumes: bool
    order: int = 0
    asked: int = 0
    live: bool = False
    waits: bool = False
    tries: int = 0
    rights: str = ""

    def end(self) -> None:
        """End the pattern, as an operator or the connection has; another connection asks for it again."""
        self.live, self.rights = False, ""

    def begin(self, rights: str = "") -> None:
        """Begin the pattern: the server looks for its subjects, of which the part that ``rights`` says may be read."""
        self.live, self.waits, self.tries, self.resumes, self.rights = True, False, 0, True, rights


class Shape(NamedTuple):
    """The places of a pattern's wildcards; of each shape at most one pattern covers a given subject."""

    length: int
    """Segments of the subject, or where the end is ``open`` the number that it has to exceed."""
    open: bool
    literals: tuple[int, ...]

    @classmethod
    def of(cls, pattern: str) -> tuple[Shape, tuple[str, ...]]:
        """Return the shape of a pattern, and its segments that are no wildcards."""
        segments = pattern[1:].split("/")
        ends_open = segments[-1] == "**"
        if ends_open:
            segments.pop()
        literals = tuple(at for at, segment in enumerate(segments) if segment != "*")
        return cls(len(segments), ends_open, literals), tuple(segments[at] for at in literals)

    def read(self, segments: list[str]) -> tuple[str, ...] | None:
        """Return the literal segments of the pattern of this shape that covers the subject; None when none can."""
        if len(segments) <= self.length if self.open else len(segments) != self.length:
            return None
        if is_reserved(segments[0]) and self.literals[:1] != (0,):
            return None
        return tuple(segments[at] for at in self.literals)


class SubscriptionRequest(NamedTuple):
    """The content of a subscribe command."""

    wanted: Sequence[ClientSubscription | Pattern]
    history: int
    conflation: int
    slow: str
    since: dict[str, Position]

    @property
    def chars(self) -> int:
        """About how long it is: names, and the numbers around them."""
        names = sum(len(wanted.subject) + 4 for wanted in self.wanted)
        return names + sum(len(subject) + 40 for subject in self.since) + 100

    def command(self, number: int) -> Subscribe:
        """Return the command, with its id."""
        subjects = [wanted.subject for wanted in self.wanted]
        history, conflation, slow = self.history, self.conflation, self.slow
        since: dict[str, tuple[int, int]] = {**self.since}
        return Subscribe(id=number, subjects=subjects, history=history, conflation=conflation, slow=slow, since=since)


Fits = Callable[[SubscriptionRequest], bool]
"""Test by which the server takes a request of that size."""


class SubscriptionSet:
    """A client's subscriptions by name.

    A name may have several owners; a subject's messages go to its own and to those of the patterns that cover it.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, ClientSubscription] = {}
        """Subscriptions by subject: those that were asked for, and those that patterns have found."""
        self.patterns: dict[str, Pattern] = {}
        self._shapes: dict[Shape, dict[tuple[str, ...], Pattern]] = {}
        self._changes = 0

    def get(self, name: str) -> ClientSubscription | Pattern | None:
        """Return the subscription or pattern of this name, if any."""
        return self.patterns.get(name) or self.subjects.get(name)

    def owners(self, name: str) -> list[Any]:
        """Return those who subscribed to the subject or pattern of this name."""
        wanted = self.get(name)
        return [] if wanted is None else list(wanted.wishes)

    def everybody(self) -> set[Any]:
        """Return the owners of all subjects and patterns."""
        every: list[ClientSubscription | Pattern] = [*self.subjects.values(), *self.patterns.values()]
        return {owner for wanted in every for owner in wanted.wishes}

    def is_level(self, name: str, owner: Any) -> bool:
        """True when an owner has all that its subscription to a subject begins with."""
        wanted = self.subjects.get(name)
        if wanted is None or not wanted.live or any(owner in one.owners for one in wanted.waiting):
            return False
        return owner not in wanted.owners or wanted.level

    def at(self, name: str) -> Position | None:
        """Return the position up to which a subject was read; None before the first message."""
        wanted = self.subjects.get(name)
        return None if wanted is None else wanted.position

    def waits(self, name: str) -> bool:
        """True when the server has not begun a subject: the right is missing."""
        wanted = self.subjects.get(name)
        return wanted is not None and wanted.waits

    def put(
        self, name: str, owner: Any, history: int, wish: Wish, since: Position | None
    ) -> tuple[ClientSubscription, bool]:
        """Note that an owner wants a subject; return the subscription, and True if the server is to be asked."""
        self._changes += 1
        wanted = self.subjects.get(name)
        if wanted is None or (wanted.wishes.keys() <= {owner} and not self.over(name)):
            wanted = self.subjects[name] = ClientSubscription(name, [owner], history, *wish, since, since)
            wanted.wishes[owner] = wish
            return wanted, True
        # All others go on as they do until the server has answered the new owner.
        wanted.leave(owner)
        wanted.wishes[owner] = wish
        wanted.conflation, wanted.slow = served(wanted.wishes.values())
        return wanted, wanted.lead_in(Newcomer([owner], history, since))

    def join_pattern(
        self, pattern: Pattern, owner: Any, history: int, wish: Wish, since: Mapping[str, Position]
    ) -> tuple[list[ClientSubscription], bool]:
        """Add an owner to a pattern; return the found subjects to ask for, and True if the pattern is to be asked for
        anew."""
        self._changes += 1
        before = pattern.conflation, pattern.slow
        pattern.wishes[owner] = wish
        pattern.conflation, pattern.slow = served(pattern.wishes.values())
        found = [one for name, one in self.subjects.items() if covers(pattern.subject, name)]
        asked = []
        for one in found:
            if not one.wishes and (one.live or one.position is not None):
                one.conflation, one.slow = min(one.conflation, wish.conflation), pattern.slow
            newcomer = Newcomer([owner], history, since.get(one.subject), joined=True)
            if (one.live or one.position is not None) and owner not in one.wishes and one.lead_in(newcomer):
                asked.append(one)
        return asked, (pattern.conflation, pattern.slow) != before

    def leave(self, wanted: ClientSubscription | Pattern, owner: Any) -> bool:
        """Let go of one of several owners; False when it is the last, who is to be let go of by ``forget``."""
        joining = isinstance(wanted, ClientSubscription) and wanted.joining
        if wanted.wishes.keys() <= {owner} and not joining:
            return False
        self._changes += 1
        if wanted.wishes.pop(owner, None) and wanted.wishes:
            wanted.conflation, wanted.slow = served(wanted.wishes.values())
        if isinstance(wanted, ClientSubscription):
            wanted.held = wanted.held or joining
            wanted.leave(owner)
        else:
            self._unjoin(wanted, owner)
        return True

    def _unjoin(self, pattern: Pattern, owner: Any) -> None:
        for one in self.subjects.values():
            if owner not in one.wishes and covers(pattern.subject, one.subject):
                one.leave(owner)

    def next(self, wanted: ClientSubscription) -> bool:
        """Lead in who is waiting, when it is its turn; whether the server is to be asked."""
        self._changes += 1
        return wanted.next()

    def put_pattern(self, pattern: Pattern, since: Mapping[str, Position]) -> None:
        """Add a pattern that nobody had; its owner may know of some subjects where they were read to."""
        self._changes += 1
        self.patterns[pattern.subject] = pattern
        pattern.order = self._changes
        shape, literals = Shape.of(pattern.subject)
        self._shapes.setdefault(shape, {})[literals] = pattern
        for subject, position in since.items():
            if not is_wildcard(subject) and covers(pattern.subject, subject):
                self.find(subject, position)

    def find(self, subject: str, position: Position | None = None, held: bool = False) -> ClientSubscription | None:
        """Return the subject, which a pattern may have found just now; None if nobody wants it."""
        wanted = self.subjects.get(subject)
        if wanted is None and (over := self.over(subject)):
            by = over[0]
            wanted = ClientSubscription(subject, [], 0, by.conflation, by.slow, position, position, held)
            self.subjects[subject] = wanted
        return wanted

    def over(self, subject: str) -> list[Pattern]:
        """Return the patterns that cover a subject, the oldest first; one look for each shape, however many they
        are."""
        segments = subject[1:].split("/")
        found = []
        for shape, patterns in self._shapes.items():
            literals = shape.read(segments)
            if literals is not None and literals in patterns:
                found.append(patterns[literals])
        return sorted(found, key=lambda pattern: pattern.order) if len(found) > 1 else found

    def has(self, wanted: ClientSubscription | Pattern) -> bool:
        """Return True while the set has this very subscription or pattern under its name."""
        return self.get(wanted.subject) is wanted

    def forget(self, wanted: ClientSubscription | Pattern) -> list[ClientSubscription]:
        """Remove a subscription or pattern from all its owners; returns the subjects of which nobody hears now."""
        self._changes += 1
        if isinstance(wanted, Pattern):
            del self.patterns[wanted.subject]
            shape, literals = Shape.of(wanted.subject)
            del self._shapes[shape][literals]
            if not self._shapes[shape]:
                del self._shapes[shape]
            for owner in wanted.wishes:
                self._unjoin(wanted, owner)
            left = [one for one in self.subjects.values() if not one.wishes and covers(wanted.subject, one.subject)]
        else:
            for owner in list(wanted.wishes):
                wanted.leave(owner)
            wanted.wishes.clear()
            left = [wanted]
        gone = [one for one in left if not (one.live or one.position) or not self.over(one.subject)]
        for one in gone:
            del self.subjects[one.subject]
        return gone

    def lose(self) -> None:
        """Mark everything as not live, as the connection is gone; what was not read yet has not been found."""
        for pattern in self.patterns.values():
            pattern.live, pattern.waits, pattern.rights = False, False, ""
            pattern.tries = 0
        for wanted in list(self.subjects.values()):
            wanted.interrupt()
            wanted.hearers_at = -1
            wanted.live = wanted.waits = wanted.lagging = wanted.held = False
            wanted.tries = 0
            wanted.join()
            if not wanted.wishes and wanted.position is None:
                del self.subjects[wanted.subject]

    def hearers(self, wanted: ClientSubscription, by_owner: bool, by_others: bool) -> tuple[Any, ...]:
        """Return the owners who get a message: the subject's own if ``by_owner``, those of patterns if
        ``by_others``."""
        if not by_others:
            return tuple(wanted.owners) if by_owner and not wanted.owed else ()
        if not by_owner:
            return tuple(owner for owner in self.hearers(wanted, True, True) if owner not in wanted.owners)
        if wanted.hearers_at != self._changes:
            wanted.hearers, wanted.hearers_at = tuple(self._hearers(wanted)), self._changes
        return wanted.hearers

    def _hearers(self, wanted: ClientSubscription) -> dict[Any, None]:
        owners = dict.fromkeys([*wanted.settled, *(wanted.owners if wanted.begun and not wanted.joined else ())])
        owners.update(dict.fromkeys(owner for pattern in self.over(wanted.subject) for owner in pattern.wishes))
        # Who joined a pattern hears of what it had found when he has been led in.
        later = [one for one in wanted.waiting if one.joined]
        if wanted.joined and not wanted.begun:
            later.append(Newcomer(wanted.owners, 0, None))
        for owner in (owner for one in later for owner in one.owners):
            owners.pop(owner, None)
        return owners

    def begin(self, wanted: ClientSubscription, result: Result, own: bool, asked: bool) -> None:
        """Begin a subscription as the server's answer says."""
        wanted.begin(result, own, asked)
        wanted.hearers_at = -1

    def resumptions(
        self, patterns: Iterable[Pattern], fits: Fits
    ) -> Iterator[tuple[SubscriptionRequest, list[ClientSubscription]]]:
        """Yield the subscribe commands for patterns.

        With each come the subjects that are too many for it, to be asked for before it by name.
        """
        found: dict[str, list[ClientSubscription]] = {pattern.subject: [] for pattern in patterns}
        for wanted in self.subjects.values() if found else ():
            if wanted.position and not wanted.plain and (over := self.over(wanted.subject)):
                found.get(over[0].subject, []).append(wanted)
        for name, subjects in found.items():
            pattern = self.patterns[name]
            count = min(len(subjects), POSITIONS_PER_PATTERN)
            while not fits(request := resumption(pattern, subjects[:count])) and count:
                count //= 2
            more = subjects[count:]
            for wanted in more:
                wanted.held = True
            yield request, more


def resumption(pattern: Pattern, subjects: Iterable[ClientSubscription]) -> SubscriptionRequest:
    """Return the subscribe command for a pattern, with where these subjects were read to."""
    since = {wanted.subject: wanted.position for wanted in subjects if wanted.position}
    history = pattern.history
    if pattern.resumes:
        history, since = 0, {pattern.subject: Position(0, 0), **since}
    return SubscriptionRequest([pattern], history, pattern.conflation, pattern.slow, since)


def frames(members: Sequence[T], fits: Callable[[Sequence[T]], bool]) -> Iterator[Sequence[T]]:
    """Yield members in runs, each for one command."""
    start = 0
    while start < len(members):
        count = SUBJECTS_PER_COMMAND
        while not fits(members[start : start + count]) and count > 1:
            count //= 2
        yield members[start : start + count]
        start += count


def requests(subscriptions: Iterable[ClientSubscription], fits: Fits) -> Iterator[SubscriptionRequest]:
    """Yield the subscribe commands for subjects; subjects with the same options share a command."""
    groups: dict[tuple[int, int, str], list[ClientSubscription]] = {}
    for wanted in subscriptions:
        # Who knows a position gets what follows it, not the history before it once more.
        history = 0 if wanted.after else wanted.history
        groups.setdefault((history, wanted.conflation, wanted.slow), []).append(wanted)
    for options, members in groups.items():
        request = partial(_request, options)
        for some in frames(members, partial(_fits, fits, request)):
            yield request(some)


def _request(options: tuple[int, int, str], some: Sequence[ClientSubscription]) -> SubscriptionRequest:
    return SubscriptionRequest(some, *options, {wanted.subject: wanted.after for wanted in some if wanted.after})


def _fits(
    fits: Fits,
    request: Callable[[Sequence[ClientSubscription]], SubscriptionRequest],
    some: Sequence[ClientSubscription],
) -> bool:
    return fits(request(some))


def check_name(text: str) -> None:
    """Accept a subject, or a pattern without a user's name (protocol.md 3.8), else raise InvalidSubject."""
    if isinstance(text, str) and is_wildcard(text):
        check_pattern(text, names=False)
    else:
        check_subject(text)


def covered(subject: str, names: Iterable[str]) -> bool:
    """Return True when the subject is one of these names, or a pattern among them covers it."""
    return any(name == subject or (is_wildcard(name) and covers(name, subject)) for name in names)
