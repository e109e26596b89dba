"""Subscriptions that come from behind: what is cached for them goes out in slices, as their client takes it.

A client that asks for what it missed, or for history, is answered at once with how much follows (protocol.md 4.2). What
does not go with the answer stays in the cache, and a **cursor** says how far the client has been sent it: it is in no
feed, and costs no bytes however much there is. Each time the client's queue is empty the next slice is read behind the
cursor; the messages that came meanwhile stand there, too, in their order. When nothing is left the client joins its
feed, in the same step. If the cache lets go of what the cursor has not come to, the subscription starts anew, and the
client is told that it was resynchronised.

The edge calls ``step`` between two handlers, for one client after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from ..cache.cache_range import part
from ..protocol.messages import Epoch, Result, Subscribed
from . import slow_consumers
from .audience import pattern_of
from .conflation_clock import interval_of

if TYPE_CHECKING:
    from .audience import Client, Cursor, SubjectFeed, Topic
    from .ports import Deliverer

SLICE_BYTES = 32 << 10
"""A slice ends with the message that passes this."""

SLICE_MESSAGES = 500
"""Number of messages of a subject in a slice at most, and of subjects: about a millisecond, after which everybody else
has a turn."""


def take(broker: Deliverer, client: Client, topic: Topic, cursor: Cursor, room: int) -> list[bytes] | None:
    """Return the next frames behind the cursor, which goes on; they end with the one that passes ``room`` bytes.

    None when the cache does not hold what follows any more, or what was sent is void.
    """
    at = broker.history.after(topic, cursor.epoch, cursor.seq)
    if at is None:
        return None
    frames: list[bytes] = []
    for message in part(topic.ring or [], at, SLICE_MESSAGES) if room > 0 else ():
        if message.epoch > cursor.epoch:
            frames.append(_epoch(client, topic, cursor, message.epoch))
        kind = cursor.kind if message.seq <= cursor.upto else ""
        frame = broker.frame(message, topic, client.terms.wire, kind)
        frames.append(frame)
        cursor.seq = message.seq
        room -= len(frame)
        if room <= 0:
            break
    if cursor.seq == topic.seq and cursor.epoch != topic.epoch:
        frames.append(_epoch(client, topic, cursor, topic.epoch))
    return frames


def leave(broker: Deliverer, client: Client, topic: Topic) -> bool:
    """End the subscription; return whether it was coming from behind, and so in no feed."""
    cursor = client.recovering.pop(topic, None) if client.recovering else None
    if cursor is None:
        return False
    cursor.feed.recovering -= 1
    broker.release(cursor.feed)
    return True


def drop(client: Client) -> None:
    """Forget the cursors of a client that is gone; its feeds are released by the caller."""
    for cursor in (client.recovering or {}).values():
        cursor.feed.recovering -= 1
    client.recovering = None


def keep(feed: SubjectFeed) -> None:
    """Keep the feed, though nobody may be in it, for who is about to join it; until ``let_go``."""
    feed.recovering += 1


def let_go(broker: Deliverer, feed: SubjectFeed) -> None:
    """Let go of a feed that somebody was about to join, and has, or does not."""
    feed.recovering -= 1
    if not feed.groups:
        broker.release(feed)


class Recoveries:
    """All clients with cursors, and whose turn it is."""

    def __init__(self, broker: Deliverer) -> None:
        self._woken: Callable[[], None] = lambda: None
        self._level: Callable[[Client], None] = lambda client: None
        self._broker = broker
        self._ready: dict[Client, None] = {}

    def run_by(self, woken: Callable[[], None]) -> None:
        """Have ``woken`` called whenever somebody has become ready for a slice."""
        self._woken = woken

    def follow(self, level: Callable[[Client], None]) -> None:
        """Have ``level`` told of each client that has no cursor any more."""
        self._level = level

    @property
    def busy(self) -> bool:
        """True while somebody waits for a slice: ``step`` is to be called for the client that is ``next``."""
        return bool(self._ready)

    def begin(self, client: Client, topic: Topic, feed: SubjectFeed, cursor: Cursor) -> None:
        """Bring the client's subscription from behind, on its way to the feed."""
        cursor.feed, cursor.interval = feed, feed.interval
        feed.recovering += 1
        if client.recovering is None:
            client.recovering = {}
        client.recovering[topic] = cursor
        self.drained(client)

    def drained(self, client: Client) -> None:
        """Give a turn to a client that has taken all that was sent to it."""
        if client.recovering and client not in self._ready:
            self._ready[client] = None
            self._woken()

    def next(self) -> Client:
        """Return the client whose turn it is; it goes behind all others when its slice is made."""
        client = next(iter(self._ready))
        del self._ready[client]
        return client

    def step(self, client: Client) -> None:
        """Send one slice of what the client has not been sent, unless something waits for it in its queue."""
        recovering = client.recovering
        if client.closed or client.queue is not None or not recovering:
            return
        broker = self._broker
        room = SLICE_BYTES
        frames: list[bytes] = []
        results: list[Result] = []
        stored: list[bytes] = []
        join: list[SubjectFeed] = []
        other: list[Result] = []  # of subjects whose options have changed meanwhile
        for topic in list(islice(recovering, SLICE_MESSAGES)):
            if room <= 0:
                break
            cursor = recovering[topic]
            some = take(broker, client, topic, cursor, room)
            if some is None:
                some = slow_consumers.anew(broker, client, topic, cursor.feed, results)
                stored += some
                level = True
            else:
                frames += some
                level = cursor.seq == topic.seq
                if level and cursor.feed.interval != cursor.interval:
                    other.append(interval_of(cursor.feed, pattern_of(client, topic)))
            room -= sum(map(len, some))
            if level:
                del recovering[topic]
                self._join(client, topic, cursor, join)
            elif cursor.seq < cursor.upto:
                break  # what was announced comes in one piece
            else:
                recovering[topic] = recovering.pop(topic)  # it may go on faster than the client takes it
        if frames or stored:
            broker.tell_base(client)
            broker.counters.messages_out += len(frames) + len(stored)
            broker.bring(client, *frames)
        if results:
            broker.bring(client, Subscribed(results=results), *stored)
        if other:
            broker.send(client, Subscribed(results=other))
        broker.move(client, join, [])
        broker.flush_answers()  # or it would not show whether the client takes them
        if not recovering:
            client.recovering = None
            self._level(client)
        elif client.queue is None:
            self._ready[client] = None

    def _join(self, client: Client, topic: Topic, cursor: Cursor, join: list[SubjectFeed]) -> None:
        """Put a level client among all others; a conflated one follows when its interval ends."""
        feed, live = cursor.feed, topic.live
        feed.recovering -= 1
        slow_consumers.allow(self._broker, client, topic, cursor.slow)
        if feed.interval and live is not None and live.number > feed.sent:
            feed.joining[client] = live.number
        else:
            join.append(feed)


def _epoch(client: Client, topic: Topic, cursor: Cursor, epoch: int) -> bytes:
    """Tell the client that what is behind the cursor stands in another epoch (protocol.md 4.8).

    Of what was announced, no more comes than up to here.
    """
    cursor.epoch = epoch
    cursor.upto = min(cursor.upto, cursor.seq)
    return client.terms.wire.event(Epoch(sid=topic.sid, epoch=epoch, seq=cursor.seq))
