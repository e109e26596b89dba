"""Which clients want a subject: topics, their feeds, and groups of clients that want exactly the same feeds.

A **topic** is a subject in use. A **feed** is one way to receive it: live, or conflated with an interval and a phase.
Clients on the same terms with the same set of feeds form a **group**; what a tick brings to a group is joined once
and the same bytes are written to all its members. Groups are found by a signature: the exclusive or of its feeds'
keys, which are a keyed hash, so that nobody who chooses subjects can make two sets collide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, cast

from ..matching.subject_options import SubjectOptions
from ..matching.subject_tree import Tree
from ..matching.subscribed_patterns import PatternTree
from .audience import Client, Cohort, CohortName, Group, PatternSubscription, SubjectFeed, Topic
from .conflation import ConflationState
from .wire import Terms

if TYPE_CHECKING:
    from ..auth.grants import Principal
    from ..protocol.options import OptionRow, TopicOptions


KEY_BYTES = 16
"""The size of a feed's key."""


class SubscriptionIndex:
    """All topics, feeds and groups. It changes membership; who leaves a group has got what it is owed before."""

    def __init__(self, secret: bytes, defaults: TopicOptions) -> None:
        """Begin with no subjects; ``defaults`` are the options that the settings give to a subject."""
        self.topics: dict[str, Topic] = {}
        self.groups: dict[tuple[Terms, int], Group] = {}
        self.tree = Tree()
        """Topics that are known."""
        self.patterns: PatternTree[Client, PatternSubscription, Cohort] = PatternTree()
        self.cohorts: dict[CohortName, Cohort] = {}
        self.options = SubjectOptions(defaults)
        """Options that subjects get when they come to be."""
        self._secret = secret
        self._keys: list[int] = []
        self._hashes_made = 0
        self._topics_made = 0

    def topic(self, subject: str, epoch: int) -> Topic:
        """Return the topic of a valid subject, made if need be."""
        topic = self.topics.get(subject)
        if topic is None:
            self._topics_made += 1
            topic = self.topics[subject] = Topic(subject, self._topics_made, epoch, self.options.find(subject))
        return topic

    def renew_options(self, rows: Sequence[OptionRow]) -> None:
        """Give options by these rows to what comes to be from now on; what is there keeps those that it has."""
        self.options = SubjectOptions(self.options.defaults, rows)

    def untake(self, group: Group, feeds: Iterable[SubjectFeed]) -> bool:
        """End these feeds for all members of the group; False, and nothing is done, when another group is as it would
        be then."""
        signature = group.signature
        for feed in feeds:
            signature ^= feed.key
        if (group.terms, signature) in self.groups:
            return False
        del self.groups[group.terms, group.signature]
        group.signature = signature
        self.groups[group.terms, signature] = group
        for feed in feeds:
            group.feeds.discard(feed)
            del feed.groups[group]
            if group.topics is not None:
                del group.topics[feed.topic]
                group.owners.pop(feed.topic, None)
        return True

    def know(self, topic: Topic) -> None:
        """Enter a subject that is published to."""
        topic.known = True
        self.tree.add(topic.subject, topic)

    def forget(self, topic: Topic) -> None:
        """Forget a topic that is ``idle``: nothing is lost by it."""
        self.topics.pop(topic.subject, None)
        if topic.known:
            topic.known = False
            self.tree.discard(topic.subject)

    def keep(self, topic: Topic) -> None:
        """Keep a topic that has a use again, though it may have been forgotten a moment ago for want of one."""
        self.topics[topic.subject] = topic

    def take(self, group: Group, feed: SubjectFeed) -> None:
        """Have all members of the group follow one feed more; no other group may be there with the same feeds."""
        del self.groups[group.terms, group.signature]
        group.signature ^= feed.key
        group.feeds.add(feed)
        feed.groups[group] = None
        self.groups[group.terms, group.signature] = group
        if group.topics is not None:
            group.topics[feed.topic] = feed

    def live_feed(self, topic: Topic) -> SubjectFeed:
        """Return the topic's feed without conflation."""
        if topic.feed is None:
            topic.feed = self._feed(topic, 0, 0)
        return topic.feed

    def cohort(self, name: CohortName, principal: Principal) -> Cohort:
        """Return the mark of such clients."""
        cohort = self.cohorts.get(name)
        if cohort is None:
            cohort = self.cohorts[name] = Cohort(self._key(), name, principal)
            self.patterns.add_cohort(cohort)
        return cohort

    def conflated_feed(self, topic: Topic, asked: int, phase: int) -> SubjectFeed:
        """Return the topic's feed for who asks for that interval (ms) and phase (grid slots)."""
        if topic.conflated is None:
            topic.conflated = {}
        if topic.live is None:
            topic.live = ConflationState()
        feed = topic.conflated.get((asked, phase))
        if feed is None:
            feed = topic.conflated[asked, phase] = self._feed(topic, asked, phase)
            feed.sent = topic.live.number
        return feed

    def begin_conflation(self, feed: SubjectFeed) -> None:
        """Conflate the topic's live feed from now on, with all who follow it."""
        topic = feed.topic
        if topic.live is None:
            topic.live = ConflationState()
        if topic.conflated is None:
            topic.conflated = {}
        topic.conflated[feed.asked, feed.phase] = feed
        feed.sent = topic.live.number
        topic.feed = None

    def end_conflation(self, feed: SubjectFeed) -> None:
        """Make a feed live again that nobody asked to have conflated, and that has sent all that came."""
        topic = feed.topic
        assert topic.conflated is not None
        del topic.conflated[feed.asked, feed.phase]
        if not topic.conflated:
            topic.conflated = None
        topic.feed = feed
        self.tidy(topic)

    def destination(self, client: Client, add: list[SubjectFeed], remove: list[SubjectFeed]) -> tuple[Terms, int]:
        """Return the key of the group that the client would belong to after the change."""
        signature = client.group.signature if client.group else 0
        for feed in add:
            signature ^= feed.key
        for feed in remove:
            signature ^= feed.key
        return client.terms, signature

    def move(self, client: Client, add: list[SubjectFeed], remove: list[SubjectFeed]) -> None:
        """Put the client into the group of its feeds plus ``add`` minus ``remove`` (each a real change)."""
        key = self.destination(client, add, remove)
        old = client.group
        target = self.groups.get(key)
        if target is None and old is not None and len(old) == 1:
            self._reshape(old, key, add, remove)
            return
        if target is None:
            feeds = (old.feeds if old else set()).union(add).difference(remove)
            if feeds:
                target = self.groups[key] = Group(key[0], key[1], feeds, _cohort(feeds))
            for feed in feeds:
                feed.groups[cast(Group, target)] = None
        if old is not None:
            old.discard(client)
            if not len(old):
                self._dissolve(old)
        if target is not None:
            target.add(client)
        for feed in remove:
            self.release(feed)

    def leave(self, client: Client) -> None:
        """Take out a client that is gone."""
        group = client.group
        if group is not None:
            group.discard(client)
            if not len(group):
                self._dissolve(group)

    def release(self, feed: SubjectFeed) -> None:
        """Forget the feed if nobody is left, and its topic if that was its only use."""
        if feed.groups or feed.joining or feed.recovering:
            return
        if type(feed) is Cohort:
            if self.cohorts.pop(feed.name, None) is not None:
                self.patterns.discard_cohort(feed)
            return
        topic = feed.topic
        if feed is topic.feed:
            topic.feed = None
        elif topic.conflated and topic.conflated.get((feed.asked, feed.phase)) is feed:
            del topic.conflated[feed.asked, feed.phase]
            if not topic.conflated:
                topic.conflated = None
        self.tidy(topic)

    def tidy(self, topic: Topic) -> None:
        """Forget a live state that nobody pulls from, and the topic if that was its only use."""
        if topic.live is not None and not topic.conflated and not topic.live.lagging:
            topic.live = None
        if topic.idle:
            self.forget(topic)

    def _feed(self, topic: Topic, asked: int, phase: int) -> SubjectFeed:
        return SubjectFeed(topic, asked, phase, self._key())

    def _key(self) -> int:
        """Return a feed's key; one hash has several, as it takes the longest part of what a feed costs."""
        keys = self._keys
        if not keys:
            self._hashes_made += 1
            digest = blake2b(self._hashes_made.to_bytes(8, "big"), key=self._secret, digest_size=64).digest()
            keys += [int.from_bytes(digest[at : at + KEY_BYTES], "big") for at in range(0, 64, KEY_BYTES)]
        return keys.pop()

    def _reshape(self, group: Group, key: tuple[Terms, int], add: list[SubjectFeed], remove: list[SubjectFeed]) -> None:
        """Change the feeds of a group of one in place: subscribing one by one stays linear."""
        del self.groups[group.terms, group.signature]
        for feed in add:
            group.feeds.add(feed)
            feed.groups[group] = None
        for feed in remove:
            group.feeds.discard(feed)
            del feed.groups[group]
        group.signature = key[1]
        group.cohort = _cohort(add) or (group.cohort if group.cohort in group.feeds else None)
        group.topics = None
        if group.feeds:
            self.groups[key] = group
        else:
            group.discard((group.ready or group.singles)[0])
        for feed in remove:
            self.release(feed)

    def _dissolve(self, group: Group) -> None:
        del self.groups[group.terms, group.signature]
        for feed in group.feeds:
            del feed.groups[group]


def _cohort(feeds: Iterable[SubjectFeed]) -> Cohort | None:
    return next((feed for feed in feeds if type(feed) is Cohort), None)
