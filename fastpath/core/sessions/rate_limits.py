"""How much a connection may say at a time: token buckets with a second's burst, and who pauses.

docs/operate/limits.md explains it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Who = TypeVar("Who")


class Bucket:
    """The rest of a share: ``left`` in pieces as of ``moment`` (ms), below zero when its user is ahead of it."""

    __slots__ = ("left", "moment")

    def __init__(self, left: float, moment: int) -> None:
        self.left = left
        self.moment = moment


class RateLimit(Generic[Who]):
    """At most ``per_second`` pieces each, over any longer time; a second's worth may come at once.

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
        """Until when (ms)."""

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
