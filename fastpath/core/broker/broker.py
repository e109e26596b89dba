"""State machine: one publication in, bytes for groups of clients out.

The laws, which every change here must keep:

1. One place, one tick. ``publish`` checks, numbers, merges, caches and offers a message without waiting for anything.
2. Order. A subject's messages are offered in the order of their numbers, and a group's frames are written to each of
   its members in the order in which they were offered, in one turn of the loop or over several. A member is owed
   exactly what was offered while it was one: it is written that alone (``level``) before it leaves, and before
   anything of its own that must come after it; who joins is not owed what is pending already
   (core/delivery/writing.py).
3. A client's own answers (``send``) leave before anything that is offered to it later: they are flushed before
   whatever is written of a group.
4. Encoded once. The bytes of a message are made once per wire (form and compression) and shared by every group,
   client and queue.
5. No I/O. ``Writer`` and ``Link`` are given by the edge; time is an argument, in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..auth.grants import Grants, Principal
from ..cache.history import CLOCK_STEP_MS, History
from ..cache.snapshot import Snapshot
from ..delivery import slow_consumers
from ..delivery.audience import Client, Group, SubjectFeed, Topic
from ..delivery.conflation_clock import Grid
from ..delivery.interest import SubscriptionIndex
from ..delivery.ports import Writer
from ..delivery.wire import SHARED, LargeFrames, Wire, pieces
from ..delivery.writing import Writing
from ..protocol.as_of import NO_VERSION, version_of
from ..protocol.codec import Form
from ..protocol.limits import Limits
from ..protocol.messages import AnyAnswer, Base, Epoch, Message
from ..protocol.options import TopicOptions
from ..telemetry.counters import Counters
from .admission import Admission, Done, Outcome, SnapshotBound, with_refusals
from .observers import ConnectionListener, PublicationListener, Trails
from .ports import EnginePort, Never, Numbering, Replicas, Stopwatch, Timely

_FOR_EVER_MS = _NEVER = 1 << 62

BASE_MS_MAX = 60_000
"""Milliseconds that message times count from their base before it moves on: they stay within 16 bits (protocol.md
5.1)."""


class Broker:
    """The one place through which every message goes."""

    def __init__(
        self,
        engine: EnginePort,
        grants: Grants,
        limits: Limits,
        *,
        server: str,
        started: int,
        secret: bytes,
        guaranteed: bool = True,
        snapshots: bool = True,
        own: Numbering | None = None,
        writer: Writer | None = None,
    ) -> None:
        own = own or engine.numbering
        if own is None:
            raise ValueError("an engine that does not number here needs somebody who numbers what is the server's own")
        self.engine, self.own = engine, own
        """Numbers what is the server's own, below ``/__sys__/``: no log keeps that."""
        self.grants = grants
        self.limits = limits
        self.server = server
        self._snapshot_ms = limits.snapshot_ms or _FOR_EVER_MS
        self.base = started
        self.guaranteed = guaranteed
        self.snapshots = snapshots
        self.interest = SubscriptionIndex(secret, TopicOptions(limits.cache_messages, limits.cache_ms))
        self.history = History(limits.cache_messages, limits.cache_ms, limits.cache_bytes)
        self.counters = Counters()
        bound = SnapshotBound(limits.snapshot_bytes_max, limits.snapshot_ms) if snapshots and engine.judges else None
        self.admission = Admission(self.interest, grants, limits, self.counters, bound)
        self.submit = engine.submit if engine.numbering or bound is None else self._submit_followed
        self.writer = writer or Writer()
        self.log: Callable[[Sequence[Message]], None] | None = None
        """Told of all that is delivered, before it is: those who follow this broker."""
        self.appeared: list[Callable[[Topic], None]] = []
        """Told of a subject that is published to for the first time, before anything of it is delivered."""
        self.restarted: Callable[[Topic], None] | None = None
        """Told of a subject that was restarted."""
        self.observers: list[ConnectionListener] = []
        """Told of what clients do."""
        self.trail: PublicationListener | None = None
        """Told of publications; see ``follow``."""
        self._trails: list[PublicationListener] = []
        self.timely: Timely = Never()
        """Clock of what is due before anything is published or written at a time."""
        self.stopwatch: Stopwatch | None = None  # told that publications are about to be numbered here
        self.sample_at = _NEVER
        """Number of messages in at which ``sample`` is told of those that came last, and says when next."""
        self.sample: Callable[[Sequence[Message], int], int] = lambda _, number: number + _NEVER
        self.before_answers: Callable[[], None] | None = None
        """Function called before answers leave: the first of several workers writes its log before anyone is told."""
        self.dirty: list[Group] = []
        self.touched: list[Client] = []  # for whom answers wait
        self.writing = Writing(self)
        self.batches = self.writing.batches
        self._base_frames: dict[Form, bytes] = {}
        self._large_frames = LargeFrames()
        self.grid = Grid(self, started)
        engine.attach(self)

    # Time

    def keep_time(self, timely: Timely) -> None:
        """Look at ``timely`` before anything is published or written."""
        self.timely = timely

    def pass_time(self, now: int) -> None:
        """Pass the time to ``now`` (ms): what is due happens before anything that is said then.

        On the way of each message the comparison stands inline: it costs no call while nothing is due.
        """
        if now >= self.timely.due:
            self.timely.pass_time(now)

    # Publications

    def publish(
        self, principal: Principal | None, messages: Sequence[Message], now: int, done: Done | None = None
    ) -> None:
        """Accept what may be accepted, number it, deliver it; ``done`` gets one outcome a message, in order.

        ``principal`` None is Django, whose right is not asked. Where the engine numbers elsewhere, the accepted
        messages come back through ``deliver``; ``done`` is called then, else before this returns or once it is safe.
        """
        if now >= self.timely.due:
            self.timely.pass_time(now)
        refused = self.admission.refused(principal, messages, now)
        if refused:
            self.counters.refused(refused.values())
            messages = [message for index, message in enumerate(messages) if index not in refused]
            if done is not None:
                done = with_refusals(done, refused)
        stopwatch = self.stopwatch
        if stopwatch is not None and not stopwatch.since:
            stopwatch.accept()
        self.submit(messages, now, done)

    def _submit_followed(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        """Hand publications to who numbers them elsewhere; the bound on snapshots counts them while they are away."""
        bound = self.admission.snapshot_bound
        if bound is not None:
            done = bound.follow(messages, self.interest.topics, now, done)
        self.engine.submit(messages, now, done)

    def numbered(self, messages: Sequence[Message], outcomes: list[Outcome] | None, done: Done | None) -> None:
        """Deliver what was appended with these outcomes (``Numbering.append``), then tell ``done``.

        Of those that could not be stored the engine keeps count.
        """
        if outcomes is None:
            self.deliver(messages)
        else:
            self.deliver([message for message, one in zip(messages, outcomes, strict=True) if type(one) is int])
        if done is not None:
            done([message.seq for message in messages] if outcomes is None else outcomes)

    def publish_own(self, message: Message, now: int) -> None:
        """Publish what is the server's own, below ``/__sys__/``."""
        self.own.append((message,), now)
        self.counters.messages_in -= 1  # nobody has published it
        self.counters.messages_own += 1
        self.deliver((message,))

    def deliver(self, messages: Sequence[Message]) -> None:
        """Merge, cache and offer numbered messages, in order."""
        if not messages:
            return
        if messages[-1].time - self.base > BASE_MS_MAX:
            self.move_base(messages[-1].time)
        counters = self.counters
        counters.messages_in += len(messages)
        if counters.messages_in >= self.sample_at:
            self.sample_at = self.sample(messages, counters.messages_in)
        if self.log is not None:
            self.log(messages)
        if self.trail is not None:
            self.trail.delivering(messages)
        topics, history = self.interest.topics, self.history
        guaranteed, snapshots = self.guaranteed, self.snapshots
        snapshot_ms = self._snapshot_ms
        for message in messages:
            topic = topics.get(message.subject)
            if topic is None or not topic.known:
                topic = self.topic(message.subject, message.epoch or self.engine.epoch)
            message.subject = topic.subject  # one text for all cached messages of the subject
            seq = message.seq
            if seq:
                if message.epoch != topic.epoch:
                    self.begin_epoch(topic, message.epoch, seq)
                topic.seq = seq
                if guaranteed:
                    history.append(topic, message)
            if message.as_of is not None:
                topic.version = max(topic.version, version_of(message.as_of))
            if message.retained and snapshots and (topic.options is None or topic.options.retained):
                state = topic.snapshot
                if state is None or state.newest.time < message.time - snapshot_ms:
                    topic.snapshot = Snapshot(message)
                else:
                    state.merge(message)
                if message.removed and topic.idle:
                    self.interest.forget(topic)
            if topic.live is not None and topic.live.note(message):
                slow_consumers.relieve(self, topic, topic.live)
            feed = topic.feed
            if feed is not None:
                self.offer(feed, message)

    def topic(self, subject: str, epoch: int) -> Topic:
        """Return the topic of a valid subject that is published to; before its first message patterns are looked at."""
        topic = self.interest.topic(subject, epoch)
        if not topic.known:
            self.interest.know(topic)
            for told in self.appeared:
                told(topic)
        return topic

    def offer(self, feed: SubjectFeed, message: Message) -> None:
        """Make the message once per wire in use and put it before every group of the feed."""
        groups = feed.groups
        if len(groups) == 1:
            (group,) = groups
            one, pending = group.wire, group.pending
            if not pending:
                self.dirty.append(group)
            pending.append(one.message(one.payload(message, feed.topic.sid, self.base, one.form)))
            return
        frames: dict[Wire, bytes] = {}
        payloads: dict[Form, bytes] = {}
        dirty = self.dirty
        wire, frame = None, b""
        for group in groups:
            if group.wire is not wire:
                wire = group.wire
                if wire not in frames:
                    form = wire.form
                    if form not in payloads:
                        payloads[form] = wire.payload(message, feed.topic.sid, self.base, form)
                    frames[wire] = wire.message(payloads[form])
                frame = frames[wire]
            pending = group.pending
            if not pending:
                dirty.append(group)
            pending.append(frame)

    def snapshot(self, topic: Topic) -> Snapshot | None:
        """Return the subject's snapshot, unless it has expired, or the subject was removed."""
        state = self.state(topic)
        return None if state is None or state.removed else state

    def state(self, topic: Topic) -> Snapshot | None:
        """Return the subject's snapshot, also one that says that the subject was removed; for who knows what was
        before."""
        snapshot, age_max = topic.snapshot, self.limits.snapshot_ms
        if snapshot is not None and age_max:
            newest, moment = snapshot.newest, self.grid.moment
            newest.time = min(newest.time, moment + CLOCK_STEP_MS)  # the clock may have been set back since
            if newest.time < moment - age_max:
                snapshot = topic.snapshot = None
        return snapshot

    def keeps_snapshot(self, topic: Topic) -> bool:
        """Return whether a snapshot of the subject is kept: neither the settings nor its options say no."""
        return self.snapshots and (topic.options is None or topic.options.retained)

    def nothing_of(self, topic: Topic | None) -> str:
        """Return why there is no snapshot of the subject, in words for who asks for it."""
        if topic is not None and not self.keeps_snapshot(topic):
            return "no snapshot of the subject is kept"
        state = None if topic is None else self.state(topic)
        return "the subject was removed" if state is not None and state.removed else "no message has been published yet"

    def ahead(self, subject: str, epoch: int, seq: int) -> bool:
        """Return whether a reader at this position has seen more of the subject than this process has."""
        topic = self.interest.topics.get(subject)
        return self.engine.numbering is None and seq > 0 and (topic is None or (epoch, seq) > (topic.epoch, topic.seq))

    def stands_there(self, topic: Topic, epoch: int, seq: int) -> bool:
        """Return whether who has read up to there can have all that came since."""
        if self.guaranteed:
            return self.history.after(topic, epoch, seq) is not None
        return (epoch, seq) == (topic.epoch, topic.seq)  # nothing is cached

    def replicate(self, replicas: Replicas | None) -> None:
        """Tell ``replicas`` of all that changes from now on; None: nobody."""
        if replicas is None:
            self.log = self.restarted = self.before_answers = None
        else:
            self.log, self.restarted, self.before_answers = replicas.note, replicas.restarted, replicas.flush

    def deliver_here(self, message: Message) -> None:
        """Deliver a message that no replica is told of: each hears of it in another way."""
        log, self.log = self.log, None
        try:
            self.deliver((message,))
        finally:
            self.log = log

    def sample_from(self, messages_in: int, sample: Callable[[Sequence[Message], int], int]) -> None:
        """Tell ``sample`` when so many messages have come in (``counters.messages_in``): those that came last, and how
        many that are; it says when next."""
        self.sample_at, self.sample = messages_in, sample

    def time_deliveries(self, stopwatch: Stopwatch) -> None:
        """Tell ``stopwatch`` of what is accepted here, and of what listeners collect."""
        if self.engine.numbering is not None:
            self.stopwatch = stopwatch
        self.batches.time(stopwatch.begin, stopwatch.release)

    def follow(self, trail: PublicationListener, on: bool) -> None:
        """Tell ``trail`` of publications from now on, or no more."""
        if trail in self._trails:
            self._trails.remove(trail)
        if on:
            self._trails.append(trail)
        self.trail = Trails(self._trails) if len(self._trails) > 1 else next(iter(self._trails), None)

    # Epochs

    def reset_topic(self, topic: Topic, epoch: int, seq: int, snapshot: Snapshot | None = None) -> None:
        """Set the subject to this message with this snapshot, whatever was delivered of it.

        Of the cache stays what leads there.
        """
        history, skips = self.history, False
        history.cut(topic, seq + 1)
        if not topic.ring or (topic.ring[-1].epoch, topic.ring[-1].seq) != (epoch, seq):
            skips = seq > (topic.seq if epoch == topic.epoch else 0)
            history.drop(topic)
            if epoch != topic.epoch and seq:  # what was read under the same number may be another message
                self._tell_epoch(topic, epoch, 0)
        topic.snapshot = snapshot
        topic.version = NO_VERSION if snapshot is None else version_of(snapshot.newest.as_of)
        self._tell_epoch(topic, epoch, seq)
        topic.epoch, topic.seq = epoch, seq
        if skips:
            self._tell_skipped(topic)
        if self.restarted is not None:
            self.restarted(topic)

    def begin_epoch(self, topic: Topic, epoch: int, seq: int) -> None:
        """Have the subject go on in this epoch, and tell everybody (protocol.md 4.8).

        What is numbered ``seq`` and above is void.
        """
        before = seq - 1
        if topic.seq > before:
            self.history.cut(topic, seq)
        if topic.seq == before and not topic.ring:
            topic.floor = topic.epoch
        self._tell_epoch(topic, epoch, before)
        topic.epoch = epoch

    def _tell_epoch(self, topic: Topic, epoch: int, seq: int) -> None:
        for feed in list((topic.conflated or {}).values()):
            self.grid.fire(feed)  # what came counts in the epoch that it came in
        self.tell(topic, Epoch(sid=topic.sid, epoch=epoch, seq=seq))

    def _tell_skipped(self, topic: Topic) -> None:
        """Tell those who cannot see by any numbers that messages of the subject do not come here."""
        frames: dict[Wire, bytes] = {}
        for feed in (topic.feed, *(topic.conflated or {}).values()):
            if feed is None:
                continue
            for group in feed.groups:
                wire = group.wire
                if not wire.numbered:
                    if wire not in frames:
                        frames[wire] = slow_consumers.stand_in(self, topic, wire, live=True)
                    if not group.pending:
                        self.dirty.append(group)
                    group.pending.append(frames[wire])
            for client in feed.joining:
                if not client.terms.wire.numbered:
                    self.send(client, slow_consumers.stand_in(self, topic, client.terms.wire, live=True))

    # What goes to clients

    def frame(self, message: Message, topic: Topic, wire: Wire, kind: str = "") -> bytes:
        """Return the message as a piece for one client; others may get the same one after it."""
        if kind != SHARED or topic.snapshot is None:
            return wire.message_again(wire.payload(message, topic.sid, self.base, wire.form, kind))
        newest, place = topic.snapshot.newest, (topic.epoch, topic.seq, self.base)
        frame = self._large_frames.find(topic.sid, wire, newest, place)
        if frame is None:
            frame = wire.message_again(wire.payload(message, topic.sid, self.base, wire.form, kind))
            self._large_frames.keep(topic.sid, wire, newest, place, frame)
        return frame

    def tell(self, topic: Topic, event: AnyAnswer) -> None:
        """Tell everybody who is subscribed to the topic, in its place among the messages."""
        frames: dict[Form, bytes] = {}
        for feed in (topic.feed, *(topic.conflated or {}).values()):
            if feed is None:
                continue
            for group in feed.groups:
                form = group.wire.form
                if form not in frames:
                    frames[form] = group.wire.event(event)
                if not group.pending:
                    self.dirty.append(group)
                group.pending.append(frames[form])
            for client in feed.joining:
                self.send(client, event)
        slow_consumers.tell(self, topic, event)

    def put(self, group: Group, event: AnyAnswer) -> None:
        """Tell all members of the group, in its place among the messages."""
        if not group.pending:
            self.dirty.append(group)
        group.pending.append(group.wire.event(event))

    def send(self, client: Client, *answers: AnyAnswer | bytes) -> None:
        """Queue answers, or frames ready made, for one client; they leave with the next flush."""
        if client.closed:
            return
        if client.out is None:
            client.out = []
            self.touched.append(client)
        wire = client.terms.wire
        client.out += [answer if isinstance(answer, bytes) else wire.event(answer) for answer in answers]

    def bring(self, client: Client, *answers: AnyAnswer | bytes) -> None:
        """Queue what the client has asked for, however large its ready made frames are: they wait for it beside what
        its queue may hold (core/delivery/outbox.py)."""
        if client.closed:
            return
        waits = (client.queue.size if client.queue is not None else 0) + sum(map(len, client.out or ()))
        size = sum(len(answer) for answer in answers if isinstance(answer, bytes))
        client.allowed = min(client.allowed, waits) + size
        self.send(client, *answers)

    def flush(self, now: int | None = None) -> None:
        """End a tick: make every answer, then write every group's pending bytes in one write a client, as far as one
        turn goes.

        ``writing.behind`` says that there is more. With ``now`` the groups of listeners that collect keep what is not
        due yet.
        """
        if now is not None and now >= self.timely.due:
            self.timely.pass_time(now)
        if self.touched:
            self.flush_answers()
        dirty, self.dirty = self.dirty, []
        if now is not None:
            dirty = self.batches.collect(dirty, now)
        if self.batches.holding:
            dirty += self.batches.due(now)
        if dirty or self.writing.behind:
            self.writing.write(dirty)

    def finish(self) -> None:
        """Write everything now, however long that takes."""
        self.flush()
        while self.writing.behind:
            self.flush()

    def flush_answers(self) -> None:
        """Write the answers that wait."""
        if self.before_answers is not None:
            self.before_answers()
        touched, self.touched = self.touched, []
        for client in touched:
            frames, client.out = client.out, None
            if frames and not client.closed:
                for data in pieces(frames) if client.allowed else (b"".join(frames),):
                    self.counters.bytes_out += len(data)
                    client.link.write(data)
                if client.allowed and client.queue is None:
                    client.allowed = 0

    def settle(self, group: Group) -> None:
        """Write all members of the group what they are owed, however many they are."""
        self.writing.settle(group)

    def level(self, client: Client) -> None:
        """Write the client what its group owes it, before anything that is to come after that (law 2)."""
        self.writing.level(client)

    # The zero of message times

    def tell_base(self, client: Client) -> None:
        """Tell the client the present base, unless it knows it, before a message that counts from it (protocol 4.9)."""
        if client.base != self.base:
            self.level(client)  # what its group has pending may count from the old one
            client.base = self.base
            self.send(client, self.base_frame(client.terms.wire))

    def move_base(self, time: int) -> None:
        """Let message times count from ``time``; what is pending counts from the old base, the new one comes behind it.

        All others are told ahead of their next message.
        """
        groups = self.writing.rebase()
        self.base = time
        self._base_frames.clear()
        for group in groups:
            group.base = time
            row = group.pending if group.held is None or group.pending else group.held.frames
            row.append(self.base_frame(group.wire))

    def base_frame(self, wire: Wire) -> bytes:
        """Return the base that is in force, as an event; empty where messages have no times."""
        frame = self._base_frames.get(wire.form)
        if frame is None:
            told = wire.event(Base(base=self.base)) if wire.dated else b""
            frame = self._base_frames[wire.form] = told
        return frame

    # Membership

    def move(self, client: Client, add: list[SubjectFeed], remove: list[SubjectFeed]) -> None:
        """Change the client's feeds; nothing pending is missed, doubled or misdirected by it."""
        if not add and not remove:
            return
        self.level(client)
        self.interest.move(client, add, remove)
        group = client.group
        if group is not None:
            self.tell_base(client)
            group.base = group.base or self.base  # a new group's one member has just been told
        for feed in remove:
            self.grid.forget(feed)

    def release(self, feed: SubjectFeed) -> None:
        """Forget the feed if nobody is left."""
        self.interest.release(feed)
        self.grid.forget(feed)
