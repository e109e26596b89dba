"""Options of subjects by pattern: for each option the most specific pattern that sets it wins (features.md C7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..protocol.options import OPTIONS, OptionRow, TopicOptions
from ..protocol.subject import specificity
from .subscribed_patterns import PatternTree


class SubjectOptions:
    """All rows of options, and what they say of a subject.

    As in subscriptions (protocol.md 3.8), a wildcard in the first place does not stand for what is reserved there.
    ``defaults`` are what the node's settings say.
    """

    def __init__(self, defaults: TopicOptions, rows: Iterable[OptionRow] = ()) -> None:
        """Sort the rows by their patterns; of several with one pattern the last one counts."""
        by_pattern = {row.pattern: row for row in rows}
        self.rows = sorted(by_pattern.values(), key=lambda row: specificity(row.pattern), reverse=True)
        """The most specific first, of those that cover one subject."""
        self.defaults = defaults
        self._patterns: PatternTree[str, Any, Any] = PatternTree()
        self._patterns.rank(row.pattern for row in self.rows)
        self._same: dict[TopicOptions, TopicOptions] = {}
        self.rates = {row.pattern: row.publish_rate for row in self.rows if row.publish_rate}
        """The rates of publications a second, by the pattern that says them."""

    @property
    def cache_ms_most(self) -> int:
        """The longest time, in ms, for which a message of any subject may be cached."""
        return max([self.defaults.cache_ms, *(row.cache_ms for row in self.rows if row.cache_ms is not None)])

    def covering(self, subject: str) -> list[OptionRow]:
        """Return the rows whose patterns cover the subject, the most specific first."""
        return [self.rows[rank] for rank in sorted(place.rank for place in self._patterns.match(subject))]

    def winners(self, subject: str) -> dict[str, OptionRow]:
        """Return the row that says it, by the name of each option that one says for the subject."""
        won: dict[str, OptionRow] = {}
        for row in reversed(self.covering(subject)):
            won |= {name: row for name in OPTIONS if getattr(row, name) is not None}
        return won

    def find(self, subject: str) -> TopicOptions | None:
        """Return what is in force for the subject, the same object for all of which the same is; None where no row says
        anything: the node's settings count."""
        if not self.rows:
            return None
        won = self.winners(subject)
        if not won:
            return None
        values = {name: getattr(row, name) for name, row in won.items()}
        if "publish_rate" in won:
            values["rated_by"] = won["publish_rate"].pattern
        found = self.defaults._replace(**values)
        return self._same.setdefault(found, found)
