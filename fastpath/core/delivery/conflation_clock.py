"""The clock of conflation: feeds fire when their interval ends, on a grid of 100 ms (features.md A7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.limits import CONFLATION_GRID_MS

if TYPE_CHECKING:
    from .audience import SubjectFeed, Topic
    from .ports import Deliverer


class Grid:
    """All conflated feeds, by interval and phase: at most interval/100 of a subject's fire at different times."""

    def __init__(self, broker: Deliverer, started: int) -> None:
        self._broker = broker
        self._slots: dict[int, dict[int, dict[SubjectFeed, None]]] = {}  # interval → phase → feeds
        self.moment = started
        """The time of the last tick, in ms since 1970."""
        self._at = started // CONFLATION_GRID_MS

    def __len__(self) -> int:
        return sum(len(feeds) for phases in self._slots.values() for feeds in phases.values())

    def feed(self, topic: Topic, interval: int, phase: int) -> SubjectFeed:
        """The conflated feed, known to the clock."""
        feed = self._broker.interest.conflated_feed(topic, interval, phase)
        self._slots.setdefault(interval, {}).setdefault(phase, {})[feed] = None
        return feed

    def tick(self, now: int) -> None:
        """Fire the feeds whose interval ended since the last call; called every 100 ms.

        After a stall each interval that ended in it fires once: what came is one group of changes all the same.
        """
        self.moment = now
        at = now // CONFLATION_GRID_MS
        if at <= self._at:
            self._at = min(self._at, at + 1)  # the clock was set back: go on from there
            return
        for interval, phases in list(self._slots.items()):
            count = interval // CONFLATION_GRID_MS
            if at - self._at >= count:
                due = list(phases)
            else:
                due = [slot % count for slot in range(self._at + 1, at + 1)]
            for phase in due:
                for feed in list(phases.get(phase, ())):
                    self.fire(feed)
        self._at = at

    def fire(self, feed: SubjectFeed) -> None:
        """An interval of the feed ended: one message, if anything came."""
        broker, live = self._broker, feed.topic.live
        if live is None:
            return
        message = live.since(feed.sent)
        if message is not None:
            broker.counters.conflated_away += live.number - feed.sent - 1
            broker.offer(feed, message)
            feed.sent = live.number
        joining, feed.joining = feed.joining, {}
        for client, number in joining.items():
            own = live.since(number)
            if own is not None:
                broker.counters.messages_out += 1
                broker.tell_base(client)
                broker.send(client, broker.frame(own, feed.topic, client.wire.encoding))
            broker.move(client, [feed], [])

    def forget(self, feed: SubjectFeed) -> None:
        """A conflated feed without members leaves the clock."""
        if feed.interval and not (feed.groups or feed.joining or feed.recovering):
            phases = self._slots.get(feed.interval, {})
            phases.get(feed.phase, {}).pop(feed, None)
            if not phases.get(feed.phase, True):
                del phases[feed.phase]
            if not phases:
                self._slots.pop(feed.interval, None)
