"""Options of subjects by pattern take force: at once for new subjects, in slices for those that are there (C7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..protocol.options import OptionRow

if TYPE_CHECKING:
    from ..delivery.audience import Topic
    from .broker import Broker

SLICE_TOPICS = 1000
"""Subjects that are looked at, and clients that are told of their interval, a group as one where all are told the same,
in one slice: about 3 ms, after which everybody else has a turn."""

EVICTED_COST = 20
"""Number of messages leaving a cache that cost as much as one subject that is looked at."""

EVICTED_MAX = SLICE_TOPICS * EVICTED_COST
"""No more messages of one subject leave its cache in one slice."""


class OptionsFollower:
    """The one way in which the options of a broker's subjects change."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._todo: list[Topic] = []
        self._told: list[Callable[[], None]] = []

    def watch(self, told: Callable[[], None]) -> None:
        """Call ``told`` from now on when other rows are in force; subjects that are there follow in slices."""
        self._told.append(told)

    @property
    def busy(self) -> bool:
        """True while subjects wait to be looked at: ``step`` is to be called until there are none."""
        return bool(self._todo)

    @property
    def rows(self) -> list[OptionRow]:
        """All rows in force."""
        return self._broker.interest.options.rows

    def replace(self, rows: Sequence[OptionRow]) -> None:
        """Replace all rows by these."""
        interest = self._broker.interest
        before = interest.options.rows
        interest.renew_options(rows)
        if interest.options.rows != before:
            self._todo = list(interest.topics.values())
            self._broker.engine.keep_options(interest.options.rows)
            for told in self._told:
                told()

    def step(self) -> None:
        """Look at the next subjects, up to a slice of work."""
        left = SLICE_TOPICS
        topics, options, history = self._broker.interest.topics, self._broker.interest.options, self._broker.history
        while self._todo and left > 0:
            topic = self._todo.pop()
            left -= 1
            if topics.get(topic.subject) is not topic:
                continue
            found = options.find(topic.subject)
            if found != topic.options:
                age_ms = history.age_of(topic)
                topic.options = found
                if not self._broker.keeps_snapshot(topic):
                    topic.snapshot = None
                    self._broker.interest.tidy(topic)
                history.refit(topic, age_ms)
                left -= self._broker.grid.refit(topic)
            evicted = history.shrink(topic, EVICTED_MAX)
            left -= evicted // EVICTED_COST
            if evicted == EVICTED_MAX:
                self._todo.append(topic)  # there may be more
