"""The clock of conflation: feeds fire when their interval ends, on a grid of 100 ms (features.md A7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.limits import CONFLATION_GRID_MS
from ..protocol.messages import Result, Subscribed
from .audience import pattern_of

if TYPE_CHECKING:
    from .audience import Group, SubjectFeed, Topic
    from .ports import Deliverer


LOOKED_SHARE = 8
"""Number of clients of whom it is looked how they follow a subject that cost as much as one that is told."""


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

    def phase(self, interval: int) -> int:
        """Return the phase of who asks for the interval (ms; 0: each message) now.

        It is counted from the last tick, not from the time: a subscription that comes in the moment before a tick that
        is due would have its first interval end with that tick, when it has just begun.
        """
        return self._at % (interval // CONFLATION_GRID_MS) if interval else 0

    def feed(self, topic: Topic, asked: int, phase: int) -> SubjectFeed:
        """Return the topic's feed for who asks for that interval (ms; 0: each message) and phase (grid slots).

        Where the feed is conflated the clock knows it.
        """
        interval = max(asked, least_interval(topic))
        if not interval:
            return self._broker.interest.live_feed(topic)
        feed = self._broker.interest.conflated_feed(topic, asked, phase)
        self._enter(feed, interval)
        return feed

    def refit(self, topic: Topic) -> int:
        """Follow a change of the topic's least interval; return the cost, in clients that are told.

        Who follows the topic goes on in the intervals that count now, and is told of it when all that came has been
        sent, so that nothing is missed. Who lags is not told: such a client finds that numbers are left out when it
        follows again, asks for what it has not read, and is told then.
        """
        least, told = least_interval(topic), 0
        if topic.feed is not None and least:
            self._broker.interest.begin_conflation(topic.feed)
        for feed in list((topic.conflated or {}).values()):
            interval = max(feed.asked, least)
            if interval == feed.interval:
                continue
            self._leave(feed)
            self.fire(feed)
            if interval:
                self._enter(feed, interval)
            else:
                feed.interval = 0
                self._broker.interest.end_conflation(feed)
            told += sum(tell_interval(self._broker, group, feed) for group in list(feed.groups))
        return told

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
        """End an interval of the feed: send one message, if anything came; two where the subject was removed within
        it."""
        broker, live = self._broker, feed.topic.live
        if live is None:
            return
        messages = live.since(feed.sent)
        if messages:
            broker.counters.conflated_away += live.number - feed.sent - len(messages)
            for message in messages:
                broker.offer(feed, message)
            feed.sent = live.number
        joining, feed.joining = feed.joining, {}
        for client, number in joining.items():
            own = live.since(number)
            if own:
                broker.counters.messages_out += len(own)
                broker.tell_base(client)
                broker.send(client, *(broker.frame(one, feed.topic, client.terms.wire) for one in own))
            broker.move(client, [feed], [])

    def forget(self, feed: SubjectFeed) -> None:
        """Take a conflated feed without members off the clock."""
        if feed.interval and not (feed.groups or feed.joining or feed.recovering):
            self._leave(feed)

    def _enter(self, feed: SubjectFeed, interval: int) -> None:
        feed.interval = interval
        self._slots.setdefault(interval, {}).setdefault(_slot(feed), {})[feed] = None

    def _leave(self, feed: SubjectFeed) -> None:
        phases, slot = self._slots.get(feed.interval, {}), _slot(feed)
        phases.get(slot, {}).pop(feed, None)
        if not phases.get(slot, True):
            del phases[slot]
        if not phases:
            self._slots.pop(feed.interval, None)


def tell_interval(broker: Deliverer, group: Group, feed: SubjectFeed) -> int:
    """Tell all members of the group the interval in which they are sent the feed from now on (protocol.md 4.2): at once
    where they follow the subject in one way, and else each for itself. The cost, in clients that are told."""
    topic = feed.topic
    members = () if group.cohort is not None else (*group.ready, *group.singles)
    patterns = {pattern_of(client, topic) for client in members} or {group.owners.get(topic, "")}
    if len(patterns) == 1:
        broker.put(group, Subscribed(results=[interval_of(feed, *patterns)]))
        return 1 + len(members) // LOOKED_SHARE
    frames = {text: group.wire.event(Subscribed(results=[interval_of(feed, text)])) for text in patterns}
    for client in members:
        broker.level(client)
        broker.send(client, frames[pattern_of(client, topic)])
    return len(members)


def interval_of(feed: SubjectFeed, pattern: str = "") -> Result:
    """Say that who follows the subject, by the pattern or by its name, is sent it in the feed's interval now."""
    topic = feed.topic
    return Result(
        subject=topic.subject,
        pattern=pattern,
        sid=topic.sid,
        epoch=topic.epoch,
        seq=topic.seq,
        conflation=feed.interval,
    )


def least_interval(topic: Topic) -> int:
    """Return the interval, in ms, below which nobody is sent what comes of the topic; 0: each message."""
    return 0 if topic.options is None else topic.options.conflation_ms


def _slot(feed: SubjectFeed) -> int:
    """Return where the feed's intervals end on their grid: as counted for who has asked for that interval, and else
    where it falls, so that not all subjects are sent at the same time."""
    if feed.interval == feed.asked:
        return feed.phase
    return feed.topic.sid % (feed.interval // CONFLATION_GRID_MS)
