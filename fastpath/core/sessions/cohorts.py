"""Clients that follow the same patterns and may read the same: what happens to one group of them at once.

However many clients are in it, a group is changed, asked for and told once. What cannot be done so is left to each
client for itself: then these answer False, and nothing has been done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..auth.rules import SUBSCRIBE
from ..delivery.conflation_clock import interval_of
from ..matching.subscribed_patterns import covers
from ..protocol.messages import Revoked, Subscribed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..broker.broker import Broker
    from ..delivery.audience import Cohort, Group, Topic

LOOK_MAX, LOOK_EACH = 2000, 20
"""Subjects that are looked at in one go for those that may be read now, for each member of the group and in all; of
more, each client looks in slices."""


def join(broker: Broker, group: Group, topic: Topic) -> bool:
    """Have all members follow a subject that comes to be."""
    cohort, topics = group.cohort, group.topics
    assert cohort is not None
    assert topics is not None
    full = len(topics) + len(cohort.texts) >= broker.limits.subscriptions_max
    if full or broker.admission.full:
        return False
    feed = broker.grid.feed(topic, 0, 0)
    if (group.terms, group.signature ^ feed.key) in broker.interest.groups:
        return False  # the feed has members, so that it need not be released
    pattern = next(text for text in cohort.texts if covers(text, topic.subject))
    result = interval_of(feed, pattern)
    broker.put(group, Subscribed(results=[result]))
    broker.interest.take(group, feed)
    group.owners[topic] = pattern
    broker.counters.subscriptions += len(group)
    for observer in broker.observers:
        observer.subscribed_together(group, topic, result)
    return True


def follow(broker: Broker, group: Group, denied: dict[str, list[str]], now: int) -> tuple[bool, int]:
    """Take from all members what is denied, by reason, as rights have changed; return False also when there is
    something to gain, and how many subjects were looked at for that."""
    cohort = group.cohort
    assert cohort is not None
    gains, looked = _gains(broker, cohort, group, now)
    return not gains and _lose(broker, cohort, group, denied), looked


def _lose(broker: Broker, cohort: Cohort, group: Group, denied: dict[str, list[str]]) -> bool:
    topics = [broker.interest.topics[subject] for subjects in denied.values() for subject in subjects]
    members = (*group.ready, *group.singles)
    if not cohort.own.isdisjoint(topics):
        return False  # what was subscribed to by name waits for its right
    broker.flush_answers()  # stored messages among them: they are purged with the queue
    broker.settle(group)
    feeds = [broker.grid.feed(topic, 0, 0) for topic in topics]
    if not broker.interest.untake(group, feeds):
        return False
    sids = {topic.sid for topic in topics}
    for client in members:
        if client.queue is not None:
            client.queue.purge(sids, client.terms.wire)
    broker.counters.subscriptions -= len(topics) * len(members)
    for reason, subjects in denied.items():
        broker.put(group, Revoked(subjects=subjects, reason=reason))
        for observer in broker.observers:
            cut = [broker.interest.topics[subject] for subject in subjects]
            observer.unsubscribed_together(group, cut, reason)
    for feed in feeds:
        broker.release(feed)
    return True


def _gains(broker: Broker, cohort: Cohort, group: Group, now: int) -> tuple[bool, int]:
    """Return whether the patterns cover a subject that is not followed and may, or perhaps may, be read."""
    looked, most = 0, min(LOOK_MAX, LOOK_EACH * len(group))
    for text in cohort.texts:
        found: Iterable[Topic | None] = broker.interest.tree.find(text)
        for topic in found:
            looked += 1
            if looked > most:
                return True, looked
            if topic is None or (group.topics is not None and topic in group.topics):
                continue
            if not broker.grants.check(cohort.principal, SUBSCRIBE, topic.subject, now):
                return True, looked
    return False, looked
