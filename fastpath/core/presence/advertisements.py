"""Who advertises which patterns, and is told when their subjects are wanted (features.md E7, protocol.md 3.10, 6.2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from ..auth.grants import Grants, Principal
from ..auth.reasons import PENDING
from ..matching.pattern_set import PatternSet
from ..protocol.messages import Offer
from ..protocol.subject import refused_offer

OFFERS_MAX = 1000
"""Patterns in one command."""

PATTERNS_PER_ADVERTISER_MAX = 100
"""Patterns of one connection."""

PATTERNS_MAX = 1000
"""Different patterns advertised in one process: each new subscription anywhere is matched against all of them."""

ADVERTISERS_MAX = 1000
"""Connections of one process that advertise: each change of what is wanted is matched against the patterns of each."""

TOLD_MAX = 1_000_000
"""Subjects that all of them together have been told are wanted; of more they are not told."""

PENDING_MAX = 10_000
"""Subjects noted for one that is to be told; beyond it, all that is wanted is looked through."""

SUBJECTS_PER_EVENT_MAX = 500
"""Subjects in one ``interest``: it stays below 300 KiB."""


class Advertiser(Protocol):
    """A connection that advertises."""

    @property
    def over(self) -> bool:
        """True when the advertiser's connection has ended."""

    @property
    def full(self) -> bool:
        """True while so much waits for the advertiser that it is told later."""

    @property
    def principal(self) -> Principal | None:
        """The principal whose rights count; None: nobody's any more."""

    def tell(self, subjects: list[str], wanted: bool) -> None:
        """Tell the advertiser that these subjects are wanted, or not any more."""


class _Advert:
    """The patterns that one advertises, what it has been told is wanted, and what is to be looked at for it:
    ``pending`` subjects, and of ``search`` those from ``at`` on that its patterns cover.

    ``undecided``: a right was not known; ``losses``: of what a hook had decided, when it was looked through.
    """

    __slots__ = ("at", "cover", "losses", "patterns", "pending", "search", "told", "undecided")

    def __init__(self, patterns: frozenset[str]) -> None:
        self.patterns = patterns
        self.cover = PatternSet(patterns)
        self.told: set[str] = set()
        self.pending: OrderedDict[str, None] = OrderedDict()  # taken from the front
        self.search: Sequence[str] = ()
        self.at = 0
        self.undecided = False
        self.losses = 0


class Advertisers:
    """The advertisers of one process; ``wanted`` are subjects with subscribers anywhere, of all that is advertised."""

    def __init__(self, grants: Grants) -> None:
        self.wanted: set[str] = set()
        self._changed: Callable[[str, int], None] = lambda pattern, count: None
        self._grants = grants
        self._counts: dict[str, int] = {}
        self._adverts: dict[Advertiser, _Advert] = {}
        self._busy: dict[Advertiser, None] = {}
        self._changes: OrderedDict[str, None] = OrderedDict()  # taken from the front
        self._told = 0
        self._version = grants.version

    def follow(self, changed: Callable[[str, int], None]) -> None:
        """Have ``changed`` told how many advertise a pattern here, whenever that changes."""
        self._changed = changed

    def __len__(self) -> int:
        return len(self._adverts)

    @property
    def busy(self) -> bool:
        """True while there is something to tell: ``step`` is to be called until there is not."""
        return bool(self._busy or self._changes)

    def advertise(self, advertiser: Advertiser, patterns: Iterable[str]) -> list[Offer]:
        """Replace the patterns that the advertiser had before; return what became of each. ``step`` tells what is
        wanted."""
        taken: dict[str, None] = {}
        known = advertiser in self._adverts
        offers = []
        for pattern in patterns:
            offer = Offer(pattern=pattern)
            offer.error, offer.reason = self._refusal(pattern, known, taken)
            offers.append(offer)
            if not offer.error and pattern not in taken:
                taken[pattern] = None
                self._count(pattern, 1)
        before = self._forget(advertiser)
        if taken:
            advert = self._adverts[advertiser] = _Advert(frozenset(taken))
            if before is not None:
                advert.told = {subject for subject in before.told if advert.cover.covers(subject)}
                self._told += len(advert.told)
            self._look_through(advertiser, advert, tuple(self.wanted))
        return offers

    def leave(self, advertiser: Advertiser) -> None:
        """Forget an advertiser that has ended."""
        self._forget(advertiser)

    def sweep(self) -> None:
        """Let go of those that ended, and follow a change of rights, each second."""
        for advertiser in [one for one in self._adverts if one.over]:
            self.leave(advertiser)
        changed, self._version = self._version != self._grants.version, self._grants.version
        all_wanted: tuple[str, ...] | None = None
        for advertiser, advert in self._adverts.items():
            asked = None if advertiser.principal is None else advertiser.principal.asked
            losses = 0 if asked is None else asked.losses
            if changed or advert.undecided or losses != advert.losses:
                advert.undecided, advert.losses = False, losses
                all_wanted = tuple(self.wanted) if all_wanted is None else all_wanted
                self._look_through(advertiser, advert, all_wanted)

    def change(self, subject: str, wanted: bool) -> None:
        """Note that the subject has got its first subscriber, or lost its last."""
        if wanted:
            self.wanted.add(subject)
        else:
            self.wanted.discard(subject)
        if self._adverts:
            self._changes[subject] = None

    def step(self, now: int, most: int) -> bool:
        """Find those who do not know yet, and tell them: up to so many subjects, each for each of them.

        Returns whether there was something to do that can be done: who is full is told later.
        """
        before = most
        while self._changes and most > 0:
            subject, _ = self._changes.popitem(last=False)
            most -= len(self._adverts)
            for advertiser, advert in self._adverts.items():
                if advert.cover.covers(subject):
                    self._note(advertiser, advert, subject)
        for advertiser in list(self._busy):
            if most <= 0:
                return True
            if advertiser.over or advertiser.full:
                continue
            advert = self._adverts[advertiser]
            some = advert.search[advert.at : advert.at + most]
            advert.at += len(some)
            most -= len(some)
            for subject in filter(advert.cover.covers, some):
                advert.pending[subject] = None
            most -= self._tell(advertiser, advert, now)
            if not advert.pending and advert.at >= len(advert.search):
                advert.search = ()
                del self._busy[advertiser]
        return most < before

    def _refusal(self, pattern: str, known: bool, taken: dict[str, None]) -> tuple[str, str]:
        """Return why the pattern is not taken: a code of protocol.md 4.15 and a reason, both empty when it is."""
        refused = refused_offer(pattern)
        if refused[0]:
            return refused
        if pattern not in taken and len(taken) >= PATTERNS_PER_ADVERTISER_MAX:
            return "limit", f"over {PATTERNS_PER_ADVERTISER_MAX} patterns"
        if pattern not in self._counts and len(self._counts) >= PATTERNS_MAX:
            return "limit", f"over {PATTERNS_MAX} patterns of all who advertise here"
        if not known and len(self._adverts) >= ADVERTISERS_MAX:
            return "limit", f"over {ADVERTISERS_MAX} connections that advertise here"
        return "", ""

    def _tell(self, advertiser: Advertiser, advert: _Advert, now: int) -> int:
        """Tell what of the pending ones it does not know; how many were looked at."""
        come: list[str] = []
        gone: list[str] = []
        some = list(islice(advert.pending, SUBJECTS_PER_EVENT_MAX))
        for subject in some:
            del advert.pending[subject]
            is_wanted = self._is_wanted(advertiser, advert, subject, now)
            if is_wanted != (subject in advert.told) and (not is_wanted or self._told + len(come) < TOLD_MAX):
                (come if is_wanted else gone).append(subject)
        advert.told.update(come)
        advert.told.difference_update(gone)
        self._told += len(come) - len(gone)
        for subjects, wanted in ((come, True), (gone, False)):
            if subjects:
                advertiser.tell(subjects, wanted)
        return len(some)

    def _is_wanted(self, advertiser: Advertiser, advert: _Advert, subject: str, now: int) -> bool:
        principal = advertiser.principal
        if subject not in self.wanted or principal is None:
            return False
        reason = self._grants.offers(principal, subject, now)
        if reason in PENDING:
            advert.undecided = True
            return subject in advert.told
        return not reason

    def _note(self, advertiser: Advertiser, advert: _Advert, subject: str) -> None:
        advert.pending[subject] = None
        self._busy[advertiser] = None
        if len(advert.pending) > PENDING_MAX:
            self._look_through(advertiser, advert, tuple(self.wanted))

    def _look_through(self, advertiser: Advertiser, advert: _Advert, all_wanted: tuple[str, ...]) -> None:
        """Look at all that is wanted, and at all that the advertiser was told is."""
        advert.pending.clear()
        gone = tuple(subject for subject in advert.told if subject not in self.wanted)
        advert.search, advert.at = (*gone, *all_wanted) if gone else all_wanted, 0
        self._busy[advertiser] = None

    def _forget(self, advertiser: Advertiser) -> _Advert | None:
        self._busy.pop(advertiser, None)
        advert = self._adverts.pop(advertiser, None)
        if advert is not None:
            self._told -= len(advert.told)
            for pattern in advert.patterns:
                self._count(pattern, -1)
        return advert

    def _count(self, pattern: str, change: int) -> None:
        count = self._counts.get(pattern, 0) + change
        if count:
            self._counts[pattern] = count
        else:
            del self._counts[pattern]
        self._changed(pattern, count)
