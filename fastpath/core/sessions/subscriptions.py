"""One client's subscription to one subject begins, waits and ends (protocol.md 4.2)."""

from __future__ import annotations

import msgspec

from ..auth.grants import Principal
from ..auth.reasons import PENDING
from ..auth.rules import SUBSCRIBE
from ..broker.admission import MEMORY_FULL
from ..broker.broker import Broker
from ..delivery import backlogs, slow_consumers
from ..delivery.audience import BEHIND, NO_ROOM, Client, Cursor, SubjectFeed, Topic, WaitingSubscription
from ..delivery.backlogs import Recoveries
from ..delivery.conflation import floor_interval
from ..delivery.conflation_clock import least_interval
from ..protocol.errors import InvalidSubject
from ..protocol.messages import Message, Result, Subscribe
from ..protocol.subject import check_subject, is_inbox
from .backfill import Backfill, BackfillRoom, collect, owed
from .membership import loosen

NO_INBOX = "replies go to the connection that has asked, and to nobody else"

BEHIND_MS = 1000
"""Milliseconds for which a client that has read further than this process waits for it to catch up, before that counts
as a gap."""

BEHIND_MS_MAX = 30_000
"""The same of a process that does not get done with what it is sent: for so long nothing is said to be a gap that may
be in what it has not read."""

UNHEARD_MS = 200
"""Milliseconds that a client waits longer that was to be told of a gap just when something of the log waited unread."""


class Prospect:
    """A subject of a command as it was found before the command takes effect, so that this takes little.

    ``refused`` says why it cannot be subscribed to by anybody. ``reason`` is the answer of the rights to this
    ``principal`` when they were in this ``version``. What comes first, which has so many bytes (``size``), and the
    result, made for who joins this ``feed``, count while the subject stands where it stood (``Subscriptions.stands``).
    The feed is kept until ``let_go``.
    """

    __slots__ = (
        *("backfill", "base", "epoch", "feed", "newest", "principal", "reason", "refused", "result", "seq", "size"),
        *("topic", "version"),
    )

    backfill: Backfill
    base: int
    epoch: int
    newest: Message | None
    result: Result
    seq: int
    size: int
    topic: Topic

    def __init__(self) -> None:
        self.refused: Result | None = None
        self.principal: Principal | None = None
        self.reason = ""
        self.version = 0
        self.feed: SubjectFeed | None = None


class Subscriptions:
    """The subscriptions that clients have, or wait for."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.recoveries = Recoveries(broker)
        self.crowded: dict[Client, None] = {}
        """Clients whose subscriptions wait for room, or for what they have read elsewhere: to be looked at again
        when they have taken what they were sent."""

    def begin(
        self,
        client: Client,
        subject: str,
        command: Subscribe,
        now: int,
        room: BackfillRoom,
        found: Prospect | None = None,
    ) -> tuple[Result, Backfill, SubjectFeed | None]:
        """Start the subscription if nothing is in the way, else let it wait or refuse it; as ``start``.

        What has been ``found`` out before need not be again; the subject has to stand where it stood then.
        """
        topic = self.broker.interest.topics.get(subject)
        refused = _refused(subject, topic) if found is None else found.refused
        if refused is not None:
            return refused, Backfill(), None
        known = topic is not None and topic in client.subscriptions
        waiting = client.waiting
        if not known and not (waiting and subject in waiting) and (reason := self.refusal(client)):
            return Result(subject=subject, error="limit", reason=reason), Backfill(), None
        grants = self.broker.grants
        if found is not None and found.principal is client.principal and found.version == grants.version:
            reason = found.reason
        else:
            reason = grants.check(client.principal, SUBSCRIBE, subject, now)
        if not reason and self.must_wait(client, subject, command, room):
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
        if found is None or found.feed is None:
            return self.start(client, subject, command, room)
        room.take(found.size)
        return self._run(client, found.topic, command, found.result, found.backfill, found.feed)

    # Before a command takes effect

    def look(
        self, client: Client, subject: str, command: Subscribe, now: int, room: BackfillRoom, planned: int
    ) -> Prospect:
        """Find out what ``begin`` asks about the subject, without any effect but that its feed is kept until
        ``let_go``: so many subscriptions are to begin before it (``planned``), and ``room`` is what they leave."""
        found = Prospect()
        broker, principal = self.broker, client.principal
        interest = broker.interest
        topic = interest.topics.get(subject)
        found.refused = _refused(subject, topic)
        if found.refused is not None:
            return found
        known = topic is not None and topic in client.subscriptions
        full = broker.admission.full or client.count + planned >= broker.limits.subscriptions_max
        if full and not known:
            return found
        if principal.asked is None:
            found.reason = broker.grants.check(principal, SUBSCRIBE, subject, now)
            found.principal, found.version = principal, broker.grants.version
            allowed = not found.reason
        else:  # the hook is asked for who wants it then: here it is only looked at what it has said
            allowed = broker.grants.explain(principal, subject, now).allowed
        if not allowed or self.must_wait(client, subject, command, room):
            return found
        if subject in command.since and broker.ahead(subject, *command.since[subject]):
            return found
        if topic is None and len(interest.topics) >= broker.limits.subjects_max:
            return found
        found.topic = topic or interest.topic(subject, broker.engine.epoch)
        interval = floor_interval(command.conflation)
        found.feed = broker.grid.feed(found.topic, interval, broker.grid.phase(interval))
        backlogs.keep(found.feed)
        self.read(client, command, found, room)
        return found

    def read(self, client: Client, command: Subscribe, found: Prospect, room: BackfillRoom) -> None:
        """Read what comes first, and make the result, as the subject stands now."""
        broker, topic = self.broker, found.topic
        found.base, found.epoch, found.seq, found.newest = broker.base, topic.epoch, topic.seq, _newest(topic)
        found.backfill = collect(broker, client, topic, command, room)
        found.size = sum(map(len, found.backfill.frames))
        found.result = _result(topic, command, found.backfill)

    def stands(self, found: Prospect) -> bool:
        """Return whether nothing has come of the subject, nor changed about it, since it was read."""
        topic = found.topic
        return (
            topic.seq == found.seq
            and topic.epoch == found.epoch
            and _newest(topic) is found.newest
            and self.broker.base == found.base
            and (found.feed is None or found.feed.interval == found.result.conflation)
        )

    def let_go(self, found: Prospect) -> None:
        """Let go of the feed, which is not kept for this any more."""
        feed, found.feed = found.feed, None
        if feed is not None:
            backlogs.let_go(self.broker, feed)

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

    def must_wait(self, client: Client, subject: str, request: Subscribe, room: BackfillRoom) -> bool:
        """Return whether there is no room for the snapshot that comes first.

        What is cached needs none: it comes as the client takes it.
        """
        if room.left > 0:
            return False
        topic = self.broker.interest.topics.get(subject)
        return topic is None or owed(self.broker, client, topic, request) is None

    def room(self, client: Client) -> BackfillRoom:
        """Return how much may be put before the client at once."""
        taken = (client.queue.size if client.queue else 0) + sum(map(len, client.out or ()))
        return BackfillRoom(self.broker.limits.outbox_bytes_max // 2 - taken)

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
        client.waiting[subject] = WaitingSubscription(kept, error, now + BEHIND_MS, now + BEHIND_MS_MAX)
        retry_ms = self.broker.limits.retry_ms if not_ready else 0
        return Result(subject=subject, error=error, reason=reason, retry_ms=retry_ms)

    def is_behind(self, subject: str, waiting: WaitingSubscription, now: int) -> bool:
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
        self, client: Client, subject: str, request: Subscribe, stored: BackfillRoom | Backfill
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
        if isinstance(stored, BackfillRoom):
            stored = collect(broker, client, topic, request, stored)
        return self._run(client, topic, request, _result(topic, request, stored), stored, None)

    def go_on(self, client: Client, topic: Topic, request: Subscribe, stored: Backfill) -> Result:
        """End a subscription and begin another of this request, which differs in nothing but who wants it."""
        result = _result(topic, request, stored)
        self._told(client, topic, request, result, stored, again=False)
        return result

    def _run(
        self,
        client: Client,
        topic: Topic,
        request: Subscribe,
        result: Result,
        stored: Backfill,
        feed: SubjectFeed | None,
    ) -> tuple[Result, Backfill, SubjectFeed | None]:
        """Run the subscription from now on, by this feed if it is known."""
        again = topic in client.subscriptions
        feed = self._join(client, topic, request.conflation, stored.cursor, feed)
        if stored.cursor is None and (client.lag is not None or request.slow != slow_consumers.CLOSE):
            slow_consumers.allow(self.broker, client, topic, request.slow)
        self._told(client, topic, request, result, stored, again=again)
        return result, stored, feed

    def _told(
        self, client: Client, topic: Topic, request: Subscribe, result: Result, stored: Backfill, *, again: bool
    ) -> None:
        """Count a subscription that runs, and tell who wants to know."""
        broker = self.broker
        if stored.cached is not None or stored.recovery:
            counters = broker.counters
            counters.cache_hits += stored.cached is True
            counters.cache_misses += stored.cached is False
            counters.recoveries += stored.recovery == "recovered"
            counters.resynchronisations += stored.recovery == "resynchronised"
        for observer in broker.observers:
            observer.subscribed(client, topic, request, result, again)

    def _join(
        self, client: Client, topic: Topic, asked: int, cursor: Cursor | None, feed: SubjectFeed | None
    ) -> SubjectFeed | None:
        """Note the subscription; return the feed that the client is to join now, None if the client joins later: when
        an interval ends, or when what is cached has been sent."""
        broker = self.broker
        loosen(broker, client)
        old = client.subscriptions.get(topic)
        behind = client.lag is not None and topic in client.lag.behind
        if old is not None and (behind or cursor is not None or topic in (client.recovering or ())):
            self.leave(client, topic)
            broker.interest.keep(topic)
            old = None
        if feed is None:
            interval = floor_interval(asked)
            feed = broker.grid.feed(topic, interval, broker.grid.phase(interval))
        if old is feed:
            if topic.live is not None and feed.interval and topic.live.number > feed.sent:
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
        if topic.live is not None and feed.interval and topic.live.number > feed.sent:
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
            if client.lag is not None and slow_consumers.leave(self.broker, client, topic):
                continue
            if client.recovering and backlogs.leave(self.broker, client, topic):
                continue
            if feed.joining.pop(client, None) is None:
                remove.append(feed)
            else:
                self.broker.release(feed)
        self.broker.counters.subscriptions -= len(topics)
        self.broker.move(client, [], remove)


def _refused(subject: str, topic: Topic | None) -> Result | None:
    """Return why nobody can subscribe to the subject; what has a topic has been looked at."""
    if topic is None:
        try:
            check_subject(subject)
        except InvalidSubject as error:
            return Result(subject=subject, error="invalid", reason=error.reason)
    return Result(subject=subject, error="invalid", reason=NO_INBOX) if is_inbox(subject) else None


def _result(topic: Topic, request: Subscribe, stored: Backfill) -> Result:
    """Say that the subscription runs, and what comes first."""
    return Result(
        subject=topic.subject,
        sid=topic.sid,
        epoch=topic.epoch,
        seq=topic.seq,
        recovery=stored.recovery,
        messages=stored.count,
        conflation=max(floor_interval(request.conflation), least_interval(topic)),
    )


def _newest(topic: Topic) -> Message | None:
    """Return the newest message of the subject's snapshot: another one with each change of that."""
    return None if topic.snapshot is None else topic.snapshot.newest
