"""The subjects and patterns a client is subscribed to, over all its connections, and who hears of which; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import UNSET

from fastpath.core.matching.subscribed_patterns import covers
from fastpath.core.protocol.messages import Result
from fastpath.core.protocol.subject import RESERVED, check_pattern, check_subject, is_wildcard

from ..message import Position

SUBJECTS_PER_COMMAND = 500
"""Half of what a server takes, so that a command with positions stays within its frame."""

POSITIONS_PER_PATTERN = 2000
"""With the longest of subjects half of a frame of the server's."""

NOTHING = Position(0, 0)
"""Where somebody is who has read nothing of what he was promised."""


@dataclass(slots=True, eq=False)
class Subscription:
    """A subscription to a subject.

    While it is ``lagging`` gaps are no fault (protocol.md 5.3); while it ``waits`` the server has not begun it.

    ``owner`` subscribed to the subject itself, and hears of it when it has ``begun``; without one, patterns found it.
    ``held``: the server has it as a subscription of its own, though no owner wants it.

    ``position`` is the last that was read. While ``stored`` messages are still to come it lags behind
    ``target``, where live messages begin, so that a connection lost between them misses nothing. They are ``private``
    where others follow the subject already, by patterns: the new owner alone gets them, from ``since`` on. ``own`` is
    the last that the owner read, while it is another than the others': a connection that is lost then is followed by
    one that goes on from the lower of the two, and each hears what it has not read. An owner who had read nothing is
    ``owed`` the beginning: it is asked for when the others have gone on.
    """

    subject: str
    owner: Any
    history: int
    conflation: int
    slow: str
    since: Position | None
    position: Position | None
    held: bool = False
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
        return self.owner is not None or self.held

    @property
    def after(self) -> Position | None:
        """The position to go on from; None: from the beginning, as it was asked for."""
        return self.since if self.live else self.last

    @property
    def last(self) -> Position | None:
        """The position up to which everybody who follows the subject has read it."""
        return self.position if self.own is None or self.position is None else min(self.own, self.position)

    def begin(self, result: Result, own: bool, asked: bool) -> None:
        """The server has begun it; ``own``: as it was asked for by its name; ``asked``: it was asked for just now."""
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
        """True when a reader goes on from what was read, and so is told of a gap: the answer may stand behind messages
        that a right took away with its end (protocol.md 4.7)."""
        if result.recovery or not self.live:
            return result.recovery == "recovered"
        return not result.messages or not (self.interval or self.lagging)

    def read(self, seq: int, anew: bool = False) -> tuple[bool, bool]:
        """A message with a number is read: by the owner, by the others? ``anew``: whatever they have read before."""
        at, own, others = Position(self.epoch, seq), self.own or self.position, self.position
        by_owner = anew or own is None or own < at
        by_others = not self.private and (anew or others is None or others < at)
        self.position = at if by_others else others
        own = at if by_owner else own
        self.own = None if own == self.position else own
        return by_owner, by_others

    def stored_over(self) -> None:
        """All stored messages have come: live ones begin."""
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
        """A new owner whom the server has not answered goes on from ``since``, with the others or apart from them."""
        if self.owner is not None and not self.begun and self.since is not None:
            others = self.position or self.since
            self.position, self.own = others, None if others == self.since else self.since

    def end(self) -> None:
        """The right is gone: it waits. If it comes back with another connection, nothing is missed."""
        self.interrupt()
        self.live, self.waits, self.lagging = False, True, False
        self.target, self.stored = None, 0


@dataclass(slots=True, eq=False)
class Pattern:
    """A pattern, which has the name ``subject`` on the wire. When it ``resumes``, the subjects that the client does not
    know came to be while it was away (protocol.md 3.8)."""

    subject: str
    owner: Any
    history: int
    conflation: int
    slow: str
    resumes: bool
    order: int = 0
    asked: int = 0
    live: bool = False
    waits: bool = False
    tries: int = 0

    def end(self) -> None:
        """An operator has ended it: it is asked for again with another connection."""
        self.live = False

    def begin(self) -> None:
        """The server looks for its subjects."""
        self.live, self.waits, self.tries, self.resumes = True, False, 0, True


class Shape(NamedTuple):
    """The places of a pattern's wildcards; of each shape at most one pattern covers a given subject."""

    length: int
    """of the subject, or what it has more than where the end is ``open``"""
    open: bool
    literals: tuple[int, ...]

    @classmethod
    def of(cls, pattern: str) -> tuple[Shape, tuple[str, ...]]:
        """The shape of a pattern, and its segments that are no wildcards."""
        segments = pattern[1:].split("/")
        ends_open = segments[-1] == "**"
        if ends_open:
            segments.pop()
        literals = tuple(at for at, segment in enumerate(segments) if segment != "*")
        return cls(len(segments), ends_open, literals), tuple(segments[at] for at in literals)

    def read(self, segments: list[str]) -> tuple[str, ...] | None:
        """The literal segments of the pattern of this shape that covers the subject; None when none can."""
        if len(segments) <= self.length if self.open else len(segments) != self.length:
            return None
        if segments[0] in RESERVED and self.literals[:1] != (0,):
            return None
        return tuple(segments[at] for at in self.literals)


class SubscriptionRequest(NamedTuple):
    """The content of a subscribe command."""

    wanted: Sequence[Subscription | Pattern]
    history: int
    conflation: int
    slow: str
    since: dict[str, Position]


class SubscriptionSet:
    """A client's subscriptions by name.

    A name has one owner; a subject's messages go to its owner and to the owners of the patterns that cover it.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, Subscription] = {}
        """Those that were asked for, and those that patterns have found."""
        self.patterns: dict[str, Pattern] = {}
        self._shapes: dict[Shape, dict[tuple[str, ...], Pattern]] = {}
        self._changes = 0

    def get(self, name: str) -> Subscription | Pattern | None:
        """The subscription or pattern of this name, if any."""
        return self.patterns.get(name) or self.subjects.get(name)

    def owner(self, name: str) -> Any:
        """The owner of the subject or pattern of this name; None when nobody subscribed to it."""
        wanted = self.get(name)
        return None if wanted is None else wanted.owner

    def owners(self) -> set[Any]:
        """The owners of all subjects and patterns."""
        every: list[Subscription | Pattern] = [*self.subjects.values(), *self.patterns.values()]
        return {wanted.owner for wanted in every if wanted.owner is not None}

    def put(
        self, name: str, owner: Any, history: int, conflation: int, slow: str, since: Position | None
    ) -> Subscription:
        """An owner wants a subject."""
        self._changes += 1
        wanted = self.subjects.get(name)
        if wanted is None or not self.over(name):
            wanted = self.subjects[name] = Subscription(name, owner, history, conflation, slow, since, since)
            return wanted
        # Those who follow it by a pattern go on doing so until the server has answered the new owner.
        wanted.owner, wanted.history, wanted.conflation, wanted.slow = owner, history, conflation, slow
        wanted.since, wanted.begun, wanted.held = since, False, False
        wanted.own, wanted.owed = None, False
        if not wanted.live:
            wanted.join()
        return wanted

    def put_pattern(self, pattern: Pattern, since: Mapping[str, Position]) -> None:
        """An owner wants a pattern; of some subjects it may know where they were read to."""
        self._changes += 1
        self.patterns[pattern.subject] = pattern
        pattern.order = self._changes
        shape, literals = Shape.of(pattern.subject)
        self._shapes.setdefault(shape, {})[literals] = pattern
        for subject, position in since.items():
            if not is_wildcard(subject) and covers(pattern.subject, subject):
                self.find(subject, position)

    def find(self, subject: str, position: Position | None = None, held: bool = False) -> Subscription | None:
        """The subject, which a pattern may have found just now; None if it is not wanted."""
        wanted = self.subjects.get(subject)
        if wanted is None and (over := self.over(subject)):
            by = over[0]
            wanted = Subscription(subject, None, 0, by.conflation, by.slow, position, position, held)
            self.subjects[subject] = wanted
        return wanted

    def over(self, subject: str) -> list[Pattern]:
        """The patterns that cover a subject, the oldest first; one look for each shape, however many they are."""
        segments = subject[1:].split("/")
        found = []
        for shape, patterns in self._shapes.items():
            literals = shape.read(segments)
            if literals is not None and literals in patterns:
                found.append(patterns[literals])
        return sorted(found, key=lambda pattern: pattern.order) if len(found) > 1 else found

    def has(self, wanted: Subscription | Pattern) -> bool:
        """True while the set has this very subscription or pattern under its name."""
        return self.get(wanted.subject) is wanted

    def forget(self, wanted: Subscription | Pattern) -> list[Subscription]:
        """Remove a subscription or pattern from its owner; returns the subjects of which nobody hears now."""
        self._changes += 1
        if isinstance(wanted, Pattern):
            del self.patterns[wanted.subject]
            shape, literals = Shape.of(wanted.subject)
            del self._shapes[shape][literals]
            if not self._shapes[shape]:
                del self._shapes[shape]
            left = [one for one in self.subjects.values() if one.owner is None and covers(wanted.subject, one.subject)]
        else:
            wanted.owner, wanted.own, wanted.owed = None, None, False
            left = [wanted]
        gone = [one for one in left if not (one.live or one.position) or not self.over(one.subject)]
        for one in gone:
            del self.subjects[one.subject]
        return gone

    def lose(self) -> None:
        """The connection is gone: nothing is live, and what was not read yet has not been found."""
        for pattern in self.patterns.values():
            pattern.live = pattern.waits = False
            pattern.tries = 0
        for wanted in list(self.subjects.values()):
            wanted.interrupt()
            wanted.hearers_at = -1
            wanted.live = wanted.waits = wanted.lagging = wanted.held = False
            wanted.tries = 0
            wanted.join()
            if wanted.owner is None and wanted.position is None:
                del self.subjects[wanted.subject]

    def hearers(self, wanted: Subscription, by_owner: bool, by_others: bool) -> tuple[Any, ...]:
        """The owners who get a message of the subject: its own if ``by_owner``, those of patterns if ``by_others``."""
        if not by_others:
            return (wanted.owner,) if by_owner and wanted.owner is not None else ()
        if not by_owner:
            return tuple(owner for owner in self.hearers(wanted, True, True) if owner is not wanted.owner)
        if wanted.hearers_at != self._changes:
            owners = [wanted.owner] if wanted.owner is not None and wanted.begun else []
            owners += (pattern.owner for pattern in self.over(wanted.subject))
            wanted.hearers, wanted.hearers_at = tuple(dict.fromkeys(owners)), self._changes
        return wanted.hearers

    def begin(self, wanted: Subscription, result: Result, own: bool, asked: bool) -> None:
        """The server has begun it."""
        wanted.begin(result, own, asked)
        wanted.hearers_at = -1

    def resumptions(self, patterns: Iterable[Pattern]) -> Iterator[tuple[SubscriptionRequest, list[Subscription]]]:
        """The subscribe commands for patterns.

        With each come the subjects that are too many for it, to be asked for before it by name.
        """
        found: dict[str, list[Subscription]] = {pattern.subject: [] for pattern in patterns}
        for wanted in self.subjects.values() if found else ():
            if wanted.position and not wanted.plain and (over := self.over(wanted.subject)):
                found.get(over[0].subject, []).append(wanted)
        for name, subjects in found.items():
            pattern = self.patterns[name]
            more = subjects[POSITIONS_PER_PATTERN:]
            for wanted in more:
                wanted.held = True
            since = {wanted.subject: wanted.position for wanted in subjects[:POSITIONS_PER_PATTERN] if wanted.position}
            history = pattern.history
            if pattern.resumes:
                history, since = 0, {name: Position(0, 0), **since}
            yield SubscriptionRequest([pattern], history, pattern.conflation, pattern.slow, since), more


def requests(subscriptions: Iterable[Subscription]) -> Iterator[SubscriptionRequest]:
    """The subscribe commands for subjects; subjects with the same options share a command."""
    groups: dict[tuple[int, int, str], list[Subscription]] = {}
    for wanted in subscriptions:
        # Who knows a position gets what follows it, not the history before it once more.
        history = 0 if wanted.after else wanted.history
        groups.setdefault((history, wanted.conflation, wanted.slow), []).append(wanted)
    for (history, conflation, slow), members in groups.items():
        for start in range(0, len(members), SUBJECTS_PER_COMMAND):
            some = members[start : start + SUBJECTS_PER_COMMAND]
            since = {wanted.subject: wanted.after for wanted in some if wanted.after}
            yield SubscriptionRequest(some, history, conflation, slow, since)


def check_name(text: str) -> None:
    """Accept a subject, or a pattern without a user's name (protocol.md 3.8), else raise InvalidSubject."""
    if isinstance(text, str) and is_wildcard(text):
        check_pattern(text, names=False)
    else:
        check_subject(text)


def covered(subject: str, names: Iterable[str]) -> bool:
    """True when the subject is one of these names, or a pattern among them covers it."""
    return any(name == subject or (is_wildcard(name) and covers(name, subject)) for name in names)
