"""How much a connection may say at a time: token buckets with a second's burst, and who pauses.

docs/operate/limits.md explains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from ..delivery.interest import SubscriptionIndex
from ..matching.subject_options import SubjectOptions
from ..telemetry.counters import Counters

Who = TypeVar("Who")


class Bucket:
    """The rest of a share: ``left`` in pieces as of ``moment`` (ms), below zero when its user is ahead of it."""

    __slots__ = ("left", "moment")

    def __init__(self, left: float, moment: int) -> None:
        self.left = left
        self.moment = moment


class RateLimit(Generic[Who]):
    """The limit of ``per_second`` pieces each, over any longer time; a second's worth may come at once.

    What is spent beyond that is taken all the same, as it has been read already: it is paid for by the pause after it.
    So nothing is ever lost. A bucket exists only for who has said something within the time that it takes to fill.
    """

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._buckets: dict[Who, Bucket] = {}

    def spend(self, who: Who, pieces: int, now: int) -> int:
        """Take so many; until when (ms) nothing more may come from there, 0 when more may come at once."""
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = Bucket(self.per_second, now)
        elif now > bucket.moment:
            bucket.left = min(self.per_second, bucket.left + (now - bucket.moment) * self.per_second / 1000)
            bucket.moment = now
        bucket.left -= pieces
        if bucket.left >= 0:
            return 0
        return bucket.moment + int(-bucket.left * 1000 / self.per_second) + 1

    def forget(self, who: Who) -> None:
        """Forget the bucket of a party that is gone."""
        self._buckets.pop(who, None)

    def sweep(self, now: int) -> None:
        """Forget those whose buckets are full by now: they begin with a full one when they come again."""
        full = [
            who
            for who, bucket in self._buckets.items()
            if bucket.left + (now - bucket.moment) * self.per_second / 1000 >= self.per_second
        ]
        for who in full:
            del self._buckets[who]

    def __len__(self) -> int:
        return len(self._buckets)


class RateLimits(Generic[Who]):
    """The rates of commands and of publications, and who pauses because of one; 0 per second is no bound."""

    def __init__(self, commands_per_second: int, publications_per_second: int) -> None:
        self.commands: RateLimit[Who] | None = RateLimit(commands_per_second) if commands_per_second else None
        self.publications: RateLimit[Who] | None = (
            RateLimit(publications_per_second) if publications_per_second else None
        )
        self.pausing: dict[Who, int] = {}
        """Times (ms) until which somebody pauses."""

    def spend(self, who: Who, commands: int, publications: int, now: int) -> str:
        """Count what was said; the name of the rate that is used up, for which ``who`` has to pause, or nothing."""
        until, name = 0, ""
        if self.commands is not None and commands:
            until = self.commands.spend(who, commands, now)
            name = "commands" if until else ""
        if self.publications is not None and publications:
            later = self.publications.spend(who, publications, now)
            if later > until:
                until, name = later, "publications"
        if name:
            self.pausing[who] = max(until, self.pausing.get(who, 0))
        return name

    def due(self, now: int) -> list[Who]:
        """Remove and return the parties whose pause is over."""
        due = [who for who, until in self.pausing.items() if until <= now]
        for who in due:
            del self.pausing[who]
        return due

    def forget(self, who: Who) -> None:
        """Forget a party that is gone: its pause and its buckets."""
        self.pausing.pop(who, None)
        for rate in (self.commands, self.publications):
            if rate is not None:
                rate.forget(who)

    def sweep(self, now: int) -> None:
        """Forget what need not be remembered; now and then."""
        for rate in (self.commands, self.publications):
            if rate is not None:
                rate.sweep(now)


class SubjectRates(Generic[Who]):
    """The rates that options of subjects set for what each connection publishes (features.md C7).

    A rate counts for all subjects together for which its pattern says it; while the index' options have no ``rates``
    nobody has to ask. ``rates`` has who pauses, for this and for what the settings say.
    """

    def __init__(self, index: SubscriptionIndex, rates: RateLimits[Who], counters: Counters) -> None:
        self.rates = rates
        self._index = index
        self._counters = counters
        self._options: SubjectOptions | None = None  # of which the limits are
        self._limits: dict[str, RateLimit[Who]] = {}  # by pattern
        self._otherwise: dict[Who, int] = {}  # of who pauses for a rate of these: until when without it

    def renew(self) -> None:
        """Follow other options, which count now: whoever pauses for a rate goes on, and spends by what counts now."""
        before, self._options = self._limits, self._index.options
        self._limits = {
            pattern: before[pattern]
            if pattern in before and before[pattern].per_second == per_second
            else RateLimit(per_second)
            for pattern, per_second in self._options.rates.items()
        }
        if self._limits != before:
            for who, until in self._otherwise.items():
                if who in self.rates.pausing:
                    self.rates.pausing[who] = until
            self._otherwise.clear()

    def spend(self, who: Who, published: Iterable[tuple[str, int]], now: int) -> bool:
        """Count publications, so many to each of these subjects; return whether ``who`` has to pause for a rate of
        theirs.

        ``who`` goes on when ``rates.due`` says so.
        """
        if self._options is not self._index.options:
            self.renew()
        topics, options, limits = self._index.topics, self._index.options, self._limits
        counts: dict[str, int] = {}
        for subject, count in published:
            topic = topics.get(subject)
            found = topic.options if topic is not None else options.find(subject)
            if found is not None and found.rated_by in limits:
                counts[found.rated_by] = counts.get(found.rated_by, 0) + count
        until = max((limits[pattern].spend(who, count, now) for pattern, count in counts.items()), default=0)
        if not until:
            return False
        before = self.rates.pausing.get(who, 0)
        self._otherwise.setdefault(who, before)
        self.rates.pausing[who] = max(until, before)
        self._counters.limit("publications")
        return True

    def forget(self, who: Who) -> None:
        """Forget a connection that is gone."""
        self.rates.forget(who)
        self._otherwise.pop(who, None)
        for limit in self._limits.values():
            limit.forget(who)

    def sweep(self, now: int) -> None:
        """Forget what need not be remembered; now and then."""
        self.rates.sweep(now)
        for limit in self._limits.values():
            limit.sweep(now)
        for who in [who for who in self._otherwise if who not in self.rates.pausing]:
            del self._otherwise[who]

    def __len__(self) -> int:
        return len(self._otherwise) + sum(map(len, self._limits.values()))
