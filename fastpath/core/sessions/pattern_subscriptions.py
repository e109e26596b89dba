"""Subscriptions to patterns: each subject that one covers is subscribed to when it is first seen (protocol.md 3.8).

A pattern costs a publication nothing. Only the first one of a subject looks for patterns (``appeared``); from then on
its subscribers are members of groups like all others. A right is asked for then, once; whoever may not read the subject
is not told of it. What is there already when a pattern comes, or a right, is looked for in slices (``step``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from ..auth.grants import Reach
from ..auth.reasons import ASKED, NOT_READY
from ..auth.rules import SUBSCRIBE
from ..delivery.audience import PatternSubscription, PatternSubscriptions, pattern_of
from ..delivery.conflation import floor_interval
from ..delivery.slow_consumers import CLOSE
from ..matching.subscribed_patterns import covers
from ..protocol.errors import InvalidSubject
from ..protocol.messages import Result, Subscribe, Subscribed
from ..protocol.subject import check_pattern, is_wildcard, may_depend_on_name
from . import cohorts
from .backfill import Backfill
from .membership import enroll, loosen

if TYPE_CHECKING:
    from ..delivery.audience import Client, Cohort, SubjectFeed, Topic
    from .subscriptions import Subscriptions

SLICE_WORK = 2000
"""Work of one call of ``step``, counted in places of the tree that are looked at: about 2 ms, after which everybody has
a turn."""

REACHES_MAX = 10_000
"""Answers that are kept about how much of a pattern may be read."""

SUBJECT_WORK = 20
"""Work that a subject counts for which is started, or refused: some 20 µs."""

Covering = dict[str, PatternSubscription | None]
"""Patterns of a client by which its subjects go on."""

_ELSEWHERE = (0, 0)

Positions = dict[str, tuple[int, int]]
"""The last (epoch, number) that was read, by subject."""

RESULT_BYTES = 160
"""Bytes that a result of ``subscribed`` takes in the outgoing queue, about."""


class _PatternAnswer:
    """An answer to one client about found subjects: the results, what is stored of them, the feeds to join."""

    __slots__ = ("join", "results", "size", "stored")

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.stored: list[bytes] = []
        self.join: list[SubjectFeed] = []
        self.size = 0

    def add(self, result: Result, stored: list[bytes], feed: SubjectFeed | None) -> None:
        """Add one more subject to the answer."""
        self.results.append(result)
        self.stored += stored
        self.size += RESULT_BYTES + sum(map(len, stored))
        if feed is not None:
            self.join.append(feed)


class PatternSubscriber:
    """All subscriptions to patterns."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.subscriptions = subscriptions
        self._broker = subscriptions.broker
        self._searching: dict[Client, None] = {}
        self._crowded: dict[Client, None] = {}
        # How much of a pattern those of a rights key may read, under the rights of one version.
        self._reaches: dict[tuple[Hashable, str], Reach] = {}
        self._reaches_version = -1
        self._broker.appeared.append(self.appeared)

    @property
    def busy(self) -> bool:
        """True while there is more to look for: ``step`` is to be called until there is not."""
        return bool(self._searching)

    def positions(self, pattern: str, command: Subscribe, subjects: Iterable[str]) -> Positions:
        """Return the positions of the command, of these ``subjects``, that the pattern covers."""
        since = command.since
        return {one: since[one] for one in subjects if not is_wildcard(one) and covers(pattern, one)}

    def add(self, client: Client, pattern: str, command: Subscribe, since: Positions | None = None) -> Result:
        """Subscribe to the pattern, or again in another way: its own result; ``step`` brings its subjects.

        ``since`` are its ``positions``, where these are known.
        """
        try:
            check_pattern(pattern, names=False)
        except InvalidSubject as error:
            return Result(subject=pattern, error="invalid", reason=error.reason)
        limits = self._broker.limits
        old = client.wilds.get(pattern) if client.wilds else None
        if old is None and len(client.wilds or ()) >= limits.patterns_max:
            self._broker.counters.limit("patterns")
            return Result(
                subject=pattern, error="limit", reason=f"over {limits.patterns_max} patterns on one connection"
            )
        if old is None and (reason := self.subscriptions.refusal(client)):
            return Result(subject=pattern, error="limit", reason=reason)
        if since is None:
            since = self.positions(pattern, command, command.since)
        request = msgspec.structs.replace(command, id=0, subjects=[], since=since)
        wild = PatternSubscription(pattern, request, pattern in command.since)
        loosen(self._broker, client)
        if client.wilds is None:
            client.wilds = PatternSubscriptions()
        if old is not None:
            wild.again = {topic for topic, text in client.wilds.owners.items() if text == pattern}
            for waiting in (client.waiting or {}).values():
                if waiting.pattern == pattern:
                    waiting.request = msgspec.structs.replace(request, since=waiting.request.since)
        client.wilds.add(wild)
        self._broker.interest.patterns.add(client, wild)
        self._search(client, wild)
        if self._broker.grants.ready:
            rights, reason = wild.rights = self._reach(client, pattern, self._broker.grid.moment)[:2]
            return Result(subject=pattern, rights=rights, reason=reason)
        return Result(subject=pattern, error="not_ready", reason=NOT_READY, retry_ms=limits.retry_ms)

    def remove(self, client: Client, patterns: set[str]) -> list[Topic]:
        """End the subscriptions to the patterns; the subjects of them that run, which the caller ends."""
        wilds = client.wilds
        assert wilds is not None
        loosen(self._broker, client)
        topics = [topic for topic, text in wilds.owners.items() if text in patterns]
        for pattern in patterns:
            wilds.remove(pattern)
            self._broker.interest.patterns.discard(client, pattern)
        if not wilds:
            client.wilds = None
        for subject in [one for one, waiting in (client.waiting or {}).items() if waiting.pattern in patterns]:
            self.subscriptions.forget(client, subject)
        return topics

    def own(self, client: Client, subject: str) -> None:
        """Note that the client has subscribed to the subject by name: from now on no pattern ends it."""
        topic = self._broker.interest.topics.get(subject)
        if client.wilds is not None and topic is not None:
            client.wilds.owners.pop(topic, None)

    def brought(self, client: Client, subject: str) -> bool:
        """Return whether the subject follows a pattern of the client, or waits to."""
        topic = self._broker.interest.topics.get(subject)
        waiting = client.waiting.get(subject) if client.waiting else None
        return bool(waiting.pattern if waiting else topic is not None and pattern_of(client, topic))

    def again(self, client: Client) -> None:
        """Look again at what of the client's subscriptions can be shared, as they have changed by themselves."""
        if client.wilds:
            self._searching[client] = None

    def cut(self, client: Client, subject: str, pattern: str) -> None:
        """Note which pattern, or none, a subject follows that waits for its right."""
        if pattern and client.waiting and subject in client.waiting:
            client.waiting[subject].pattern = pattern

    def runs(self, client: Client, subject: str, pattern: str, result: Result) -> None:
        """Note that the subscription runs again, and in its result the pattern that it follows."""
        topic = self._broker.interest.topics.get(subject)
        if pattern and client.wilds is not None and topic in client.subscriptions:
            result.pattern = pattern
            client.wilds.owners[topic] = pattern

    def standing(self, client: Client, topics: Iterable[Topic]) -> dict[Topic, tuple[int, int] | None]:
        """Return the running subscriptions without conflation, and where those stand that come from behind; of the
        others all has been sent that came."""
        behind = client.lag.behind if client.lag is not None else ()
        cursors = client.recovering or {}
        return {
            topic: (cursors[topic].epoch, cursors[topic].seq) if topic in cursors else None
            for topic in topics
            if not client.subscriptions[topic].interval and topic not in behind
        }

    def kept(
        self,
        client: Client,
        topics: Iterable[Topic],
        standing: dict[Topic, tuple[int, int] | None],
        covering: Covering,
    ) -> dict[Topic, PatternSubscription]:
        """Return, of subscriptions that are about to end, those that go on in the feed in which they are, and by which
        pattern.

        All that waits for the client is written before anything is said of them. Patterns may have ended since they
        were found to be ``covering`` subjects, and none may have begun.
        """
        wilds = client.wilds
        if wilds is None:
            return {}
        kept: dict[Topic, PatternSubscription] = {}
        able = client.lag.able if client.lag is not None else ()
        for topic in topics:
            stands = topic.known and topic not in able and standing.get(topic, _ELSEWHERE) is None
            if stands and client.subscriptions[topic] is topic.feed:
                wild = covering.get(topic.subject)
                if wild is None or wilds.get(wild.text) is not wild:
                    wild = wilds.covering(topic.subject)
                if wild is not None and wild.request.slow == CLOSE and not floor_interval(wild.request.conflation):
                    kept[topic] = wild
        if kept:
            loosen(self._broker, client)
            self._broker.level(client)
        return kept

    def inherit(
        self,
        client: Client,
        topics: Iterable[Topic],
        standing: dict[Topic, tuple[int, int] | None],
        kept: dict[Topic, PatternSubscription],
        now: int,
    ) -> None:
        """Have subscriptions that have ended go on by a pattern of the client that covers them, from where they stand,
        but for those that are ``kept``; what does not stand anywhere begins anew."""
        answer = _PatternAnswer()
        for ended in topics:
            subject = ended.subject
            wild = kept.get(ended)
            if wild is not None:
                sent = Backfill(recovery="recovered")
                result = self.subscriptions.go_on(client, ended, wild.request, sent)
                self._owned(client, wild, ended, result, sent, None, answer)
                continue
            wild = client.wilds.covering(subject) if client.wilds else None
            topic = self._broker.interest.topics.get(subject)
            if wild is None or topic is None or not topic.known:
                continue
            stands = standing.get(topic)
            if topic in standing and stands is None:
                sent = Backfill(recovery="recovered")
                result, stored, feed = self.subscriptions.start(client, subject, wild.request, sent)
                self._owned(client, wild, topic, result, stored, feed, answer)
            else:
                since = {} if stands is None else {subject: stands}
                self._start(client, wild, subject, msgspec.structs.replace(wild.request, since=since), now, answer)
        self._tell(client, answer)

    def look_again(self, client: Client) -> None:
        """Look again at a client whose rights have changed: what it did not get before it may get now."""
        loosen(self._broker, client)
        for wild in (client.wilds or {}).values():
            wild.limited = False
            self._search(client, wild)

    def tell_rights(self, client: Client, now: int) -> int:
        """Tell the client, whose rights may have changed, of each pattern that it may read more or less of than it was
        told; return about how many answers that took."""
        results: list[Result] = []
        looked = 0
        if self._broker.grants.ready:
            for wild in (client.wilds or {}).values():
                reach = self._reach(client, wild.text, now)
                looked += reach.looked
                if wild.rights != reach[:2]:
                    rights, reason = wild.rights = reach[:2]
                    results.append(Result(subject=wild.text, rights=rights, reason=reason))
        if results:
            self._broker.level(client)
            self._broker.send(client, Subscribed(results=results))
        return looked

    def _reach(self, client: Client, pattern: str, now: int) -> Reach:
        """Return how much of the pattern the client may read; those who may read the same are asked for once."""
        grants, principal = self._broker.grants, client.principal
        if self._reaches_version != grants.version or len(self._reaches) > REACHES_MAX:
            self._reaches_version = grants.version
            self._reaches.clear()
        rights_key = grants.rights_key(principal, may_depend_on_name(pattern))
        if rights_key is principal:
            return grants.reach(principal, pattern, now)
        known = self._reaches.get((rights_key, pattern))
        if known is None:
            found = grants.reach(principal, pattern, now)
            self._reaches[rights_key, pattern] = found._replace(looked=0)
            return found
        return known

    def tick(self) -> None:
        """Go on with clients that have room again; this is called often."""
        for client in [client for client in self._crowded if client.closed or client.queue is None]:
            del self._crowded[client]
            if not client.closed:
                self._searching[client] = None

    def step(self, now: int, client: Client | None = None) -> None:
        """Look for the next subjects of the client, or of whose turn it is, up to a slice of work."""
        left = SLICE_WORK
        while left > 0 and self._searching:
            one = client or next(iter(self._searching))
            if one not in self._searching:
                return
            del self._searching[one]
            if one.closed or not one.wilds or not self._broker.grants.ready:
                continue  # with the rights it is looked at again
            left -= SUBJECT_WORK + self._find(one, now, left)
            if all(wild.search is None for wild in one.wilds.values()):
                enroll(self._broker, one)
            elif one not in self._crowded:
                self._searching[one] = None  # behind all others
                if client is not None:
                    return

    # Looking for subjects that are there

    def _search(self, client: Client, wild: PatternSubscription) -> None:
        """Begin with what the client has read, which it is to be told of in any case."""
        known = (topic and topic.subject for topic in self._broker.interest.tree.find(wild.text))
        wild.search = chain(list(wild.request.since), known)
        self._searching[client] = None

    def _find(self, client: Client, now: int, work_max: int) -> int:
        """Start what the client's patterns cover and it may read; how much work that was."""
        broker = self._broker
        answer = _PatternAnswer()
        broker.level(client)
        work = 0
        for wild in list((client.wilds or {}).values()):
            while wild.search is not None and work < work_max:
                if self.subscriptions.room(client).left <= answer.size:
                    self._crowded[client] = None
                    work = work_max
                    break
                subject = next(wild.search, "")
                if subject == "":
                    wild.search = None
                    wild.request.since = {}
                    wild.resumes = False
                    break
                work += SUBJECT_WORK if subject else 1
                if subject:
                    self._found(client, wild, subject, now, answer)
        self._tell(client, answer)
        return work

    def _tell(self, client: Client, answer: _PatternAnswer) -> None:
        broker = self._broker
        if answer.results:
            if answer.stored:
                broker.tell_base(client)
            broker.bring(client, Subscribed(results=answer.results), *answer.stored)
            broker.counters.messages_out += len(answer.stored)
        broker.move(client, answer.join, [])

    def _found(self, client: Client, wild: PatternSubscription, subject: str, now: int, answer: _PatternAnswer) -> None:
        """Start a subject that the pattern covers, unless it runs or waits or may not be read."""
        broker = self._broker
        topic = broker.interest.topics.get(subject)
        assert client.wilds is not None
        wild = client.wilds.covering(subject) or wild
        if topic is not None and topic in client.subscriptions:
            if topic not in wild.again:
                return
            wild.again.discard(topic)
        elif client.waiting and subject in client.waiting:
            return
        since = wild.request.since.get(subject)
        if since is None:
            if topic is None:
                return
            if wild.resumes and topic.seq:
                since = (topic.epoch, 0)  # it came to be while the client was away: from its first message on
            reason = broker.grants.check(client.principal, SUBSCRIBE, subject, now)
            if reason:
                self._refused(client, wild, subject, since, reason, now, answer)
                return  # not told at all
        request = msgspec.structs.replace(wild.request, since={} if since is None else {subject: since})
        self._start(client, wild, subject, request, now, answer)

    def _refused(
        self,
        client: Client,
        wild: PatternSubscription,
        subject: str,
        since: tuple[int, int] | None,
        reason: str,
        now: int,
        answer: _PatternAnswer,
    ) -> None:
        """Keep the subject from the client, which is not told of it; where the right is not known yet, the subject
        waits for the answer."""
        if reason is ASKED and not self._is_full(client, wild, answer):
            request = msgspec.structs.replace(wild.request, since={} if since is None else {subject: since})
            self.subscriptions.wait(client, subject, request, reason, now)
            assert client.waiting is not None
            waiting = client.waiting[subject]
            waiting.pattern, waiting.told = wild.text, False

    def _is_full(self, client: Client, wild: PatternSubscription, answer: _PatternAnswer) -> bool:
        """Return whether the client may not have one subject more, of which it is told once."""
        reason = self.subscriptions.refusal(client)
        if reason and not wild.limited:
            wild.limited = True
            answer.add(Result(subject=wild.text, error="limit", reason=reason), [], None)
        return bool(reason)

    def _start(
        self,
        client: Client,
        wild: PatternSubscription,
        subject: str,
        request: Subscribe,
        now: int,
        answer: _PatternAnswer,
    ) -> None:
        topics = self._broker.interest.topics
        if topics.get(subject) not in client.subscriptions and self._is_full(client, wild, answer):
            return
        room = self.subscriptions.room(client)
        room.take(answer.size)
        result, stored, feed = self.subscriptions.begin(client, subject, request, now, room)
        if client.waiting and subject in client.waiting:
            client.waiting[subject].pattern = wild.text
        self._owned(client, wild, topics.get(subject), result, stored, feed, answer)

    def _owned(
        self,
        client: Client,
        wild: PatternSubscription,
        topic: Topic | None,
        result: Result,
        stored: Backfill,
        feed: SubjectFeed | None,
        answer: _PatternAnswer,
    ) -> None:
        """Have the subject follow the pattern, if it runs."""
        result.pattern = wild.text
        if client.wilds is not None and topic in client.subscriptions:
            client.wilds.owners[topic] = wild.text
        answer.add(result, stored.frames, feed)

    # A subject comes to be

    def appeared(self, topic: Topic) -> None:
        """Subscribe to a subject all who have a pattern that covers it, and the right: it is published to for the first
        time, and nothing of it has been delivered yet, so that they get all of it."""
        places = self._broker.interest.patterns.match(topic.subject)
        for cohort in {cohort: None for place in places for cohort in place.cohorts or ()}:
            self._join_cohort(cohort, topic)
        reasons: dict[Hashable, str] = {}
        grants, now = self._broker.grants, self._broker.grid.moment
        named = may_depend_on_name(topic.subject)
        for place in places:
            for client, wild in list((place.members or {}).items()):
                if topic in client.subscriptions or topic.subject in (client.waiting or ()):
                    continue
                rights_key = grants.rights_key(client.principal, named)
                reason = reasons.get(rights_key)
                if reason is None:
                    reason = reasons[rights_key] = grants.check(client.principal, SUBSCRIBE, topic.subject, now)
                if not reason or reason is ASKED:
                    answer = _PatternAnswer()
                    self._found(client, wild, topic.subject, now, answer)
                    self._tell(client, answer)

    def _join_cohort(self, cohort: Cohort, topic: Topic) -> None:
        """Let all of the cohort join together; or none of it may read the subject."""
        broker = self._broker
        reason = broker.grants.check(cohort.principal, SUBSCRIBE, topic.subject, broker.grid.moment)
        if reason and reason is not ASKED:
            return
        for group in list(cohort.groups):
            if group.topics is None or topic in group.topics:
                continue  # one in it has subscribed by name before anything was published
            if reason or not cohorts.join(broker, group, topic):
                for client in (*group.ready, *group.singles):  # each for itself, after this
                    loosen(broker, client)
                    self.again(client)
