"""One client's subscription to one subject begins, waits and ends (protocol.md 4.2)."""

from __future__ import annotations

import msgspec

from ..auth.reasons import PENDING
from ..auth.rules import SUBSCRIBE
from ..broker.admission import MEMORY_FULL
from ..broker.broker import Broker
from ..delivery import backlogs, slow_consumers
from ..delivery.audience import BEHIND, NO_ROOM, Client, Cursor, SubjectFeed, Topic, Waiting
from ..delivery.backlogs import Recoveries
from ..delivery.conflation import floor_interval, phase_of
from ..protocol.errors import InvalidSubject
from ..protocol.messages import Result, Subscribe
from ..protocol.subject import check_subject
from .backfill import Backfill, Room, collect, owed
from .membership import loosen

BEHIND_MS = 1000
"""How long a client that has read further than this process waits for it to catch up, before that counts as a gap."""

BEHIND_MS_MAX = 30_000
"""The same of a process that does not get done with what it is sent: for so long nothing is said to be a gap that may
be in what it has not read."""

UNHEARD_MS = 200
"""How much longer a client waits that was to be told of a gap just when something of the log waited unread."""


class Subscriptions:
    """The subscriptions that clients have, or wait for."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.recoveries = Recoveries(broker)
        self.crowded: dict[Client, None] = {}
        """Clients whose subscriptions wait for room, or for what they have read elsewhere: to be looked at again
        when they have taken what they were sent."""

    def begin(
        self, client: Client, subject: str, command: Subscribe, now: int, room: Room
    ) -> tuple[Result, Backfill, SubjectFeed | None]:
        """Start the subscription if nothing is in the way, else let it wait or refuse it; as ``start``."""
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return Result(subject=subject, error="invalid", reason=error.reason), Backfill(), None
        topic = self.broker.interest.topics.get(subject)
        known = topic is not None and topic in client.subscriptions
        waiting = client.waiting
        if not known and not (waiting and subject in waiting) and (reason := self.refusal(client)):
            return Result(subject=subject, error="limit", reason=reason), Backfill(), None
        reason = self.broker.grants.check(client.principal, SUBSCRIBE, subject, now)
        if not reason and self.must_wait(subject, command, room):
            reason = NO_ROOM
            self.crowded[client] = None
        if not reason and subject in command.since and self.broker.ahead(subject, *command.since[subject]):
            reason = BEHIND
            self.crowded[client] = None
        if reason:
            if topic is not None and known:
                self.leave(client, topic)
                for observer in self.broker.observers:
                    observer.unsubscribed(client, (topic,), reason)
            return self.wait(client, subject, command, reason, now), Backfill(), None
        if waiting and waiting.pop(subject, None):
            self.broker.counters.waiting -= 1
        return self.start(client, subject, command, now, room)

    def refusal(self, client: Client) -> str:
        """Return why the client may not have one subscription more; empty if it may."""
        broker = self.broker
        if client.count >= broker.limits.subscriptions_max:
            broker.counters.limit("subscriptions")
            return broker.limits.subscriptions_reason
        if broker.admission.full:
            broker.counters.limit("memory")
            return MEMORY_FULL
        return ""

    def must_wait(self, subject: str, request: Subscribe, room: Room) -> bool:
        """Return whether there is no room for the snapshot that comes first.

        What is cached needs none: it comes as the client takes it.
        """
        if room.left > 0:
            return False
        topic = self.broker.interest.topics.get(subject)
        return topic is None or owed(self.broker, topic, request) is None

    def room(self, client: Client) -> Room:
        """Return how much may be put before the client at once."""
        taken = (client.queue.size if client.queue else 0) + sum(map(len, client.out or ()))
        return Room(self.broker.limits.outbox_bytes_max // 2 - taken)

    def wait(self, client: Client, subject: str, request: Subscribe, reason: str, now: int) -> Result:
        """Keep a subscription until its right comes, or room, or what it has read elsewhere (protocol.md 4.2)."""
        if client.waiting is None:
            client.waiting = {}
        if subject not in client.waiting:
            self.broker.counters.waiting += 1
        since = {subject: request.since[subject]} if subject in request.since else {}
        kept = msgspec.structs.replace(request, id=0, subjects=[], since=since)
        not_ready = reason in (*PENDING, NO_ROOM, BEHIND)
        error = "not_ready" if not_ready else "denied"
        client.waiting[subject] = Waiting(kept, error, now + BEHIND_MS, now + BEHIND_MS_MAX)
        retry_ms = self.broker.limits.retry_ms if not_ready else 0
        return Result(subject=subject, error=error, reason=reason, retry_ms=retry_ms)

    def is_behind(self, subject: str, waiting: Waiting, now: int) -> bool:
        """Return whether the client has read further than has come here, and what is missing may still come.

        Time in which this process stood still, or had no CPU, is none in which it could have come.
        """
        since = waiting.request.since.get(subject)
        if since is None or not self.broker.ahead(subject, *since):
            return False
        if now >= waiting.until and self.broker.engine.unheard():
            waiting.until = min(now + UNHEARD_MS, waiting.latest)
        return now < waiting.until

    def forget(self, client: Client, subject: str) -> None:
        """Forget the client's subscription to the subject if it waits."""
        if client.waiting and client.waiting.pop(subject, None):
            self.broker.counters.waiting -= 1

    def start(
        self, client: Client, subject: str, request: Subscribe, now: int, stored: Room | Backfill
    ) -> tuple[Result, Backfill, SubjectFeed | None]:
        """Begin a subscription whose right is known: the result, what is sent first, and the feed to join.

        ``stored`` is what comes first, where that is known, else the room for it.
        """
        broker = self.broker
        topics = broker.interest.topics
        if subject not in topics and len(topics) >= broker.limits.subjects_max:
            broker.counters.limit("subjects")
            reason = f"the server already holds {broker.limits.subjects_max} subjects"
            return Result(subject=subject, error="limit", reason=reason), Backfill(), None
        topic = broker.interest.topic(subject, broker.engine.epoch)
        if isinstance(stored, Room):
            stored = collect(broker, client, topic, request, stored)
        interval = floor_interval(request.conflation)
        result = Result(
            subject=subject,
            sid=topic.sid,
            epoch=topic.epoch,
            seq=topic.seq,
            recovery=stored.recovery,
            messages=stored.count,
            conflation=interval,
        )
        broker.counters.recoveries += stored.recovery == "recovered"
        broker.counters.resynchronisations += stored.recovery == "resynchronised"
        again = topic in client.subscriptions
        feed = self._join(client, topic, interval, now, stored.cursor)
        if stored.cursor is None:
            slow_consumers.allow(broker, client, topic, request.slow)
        for observer in broker.observers:
            observer.subscribed(client, topic, request, result, again)
        return result, stored, feed

    def _join(self, client: Client, topic: Topic, interval: int, now: int, cursor: Cursor | None) -> SubjectFeed | None:
        """Note the subscription; the feed that the client is to join now, None if it joins later: when an interval
        ends, or when what is cached has been sent."""
        broker = self.broker
        loosen(broker, client)
        old = client.subscriptions.get(topic)
        behind = client.lag is not None and topic in client.lag.behind
        if old is not None and (behind or cursor is not None or topic in (client.recovering or ())):
            self.leave(client, topic)
            broker.interest.keep(topic)
            old = None
        feed = (
            broker.interest.live_feed(topic)
            if not interval
            else broker.grid.feed(topic, interval, phase_of(now, interval))
        )
        if old is feed:
            if topic.live is not None and interval and topic.live.number > feed.sent:
                # What came in this interval was in the stored messages just sent: it must not come again at its end.
                joined = client not in feed.joining
                feed.joining[client] = topic.live.number
                broker.move(client, [], [feed] if joined else [])
            return None
        if old is not None:
            self.leave(client, topic)
        client.subscriptions[topic] = feed
        broker.counters.subscriptions += 1
        if cursor is not None:
            self.recoveries.begin(client, topic, feed, cursor)
            return None
        if topic.live is not None and interval and topic.live.number > feed.sent:
            feed.joining[client] = topic.live.number
            return None
        return feed

    def leave(self, client: Client, topic: Topic) -> None:
        """End one running subscription."""
        self.leave_all(client, [topic])

    def leave_all(self, client: Client, topics: list[Topic]) -> None:
        """End running subscriptions, with one move for all."""
        loosen(self.broker, client)
        if client.wilds:
            for topic in topics:
                client.wilds.owners.pop(topic, None)
        remove = []
        for topic in topics:
            feed = client.subscriptions.pop(topic)
            if slow_consumers.leave(self.broker, client, topic) or backlogs.leave(self.broker, client, topic):
                continue
            if feed.joining.pop(client, None) is None:
                remove.append(feed)
            else:
                self.broker.release(feed)
        self.broker.counters.subscriptions -= len(topics)
        self.broker.move(client, [], remove)
