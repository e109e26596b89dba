"""Clients that lag and accept conflation: what waits for them is a number a subscription, not bytes (features.md C6).

A subscription made with ``slow="conflate"`` is **able** while its client keeps up. When the client's queue passes
``Limits.lag_bytes`` all of them fall **behind**: they leave their feeds, and the topic's live state
(core/delivery/conflation.py) keeps the number of the last publication that was queued for each. When the queue is
empty they are pulled level: one message for all that came since, then live again. The client is told both times
(protocol.md 4.13).

Where one tick brings more than the queue's bound, what may be conflated is taken out of the queue again (``shed``):
of these subscriptions something is **lost**, and they start anew when the queue is empty.

The edge calls ``begin`` and ``catch_up`` between two handlers, never while the broker writes; ``shed`` at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ..protocol.codec import LIVE_STAND_IN, STAND_IN
from ..protocol.errors import Close
from ..protocol.messages import AnyAnswer, CaughtUp, Lagging, Result, Subscribed
from .audience import Lag, pattern_of
from .conflation import ConflationState
from .wire import split_messages

if TYPE_CHECKING:
    from ..protocol.limits import Limits
    from .audience import Client, SubjectFeed, Topic
    from .ports import Deliverer
    from .wire import Wire

CLOSE = "close"
CONFLATE = "conflate"
POLICIES = (CLOSE, CONFLATE)
"""Values that a subscription may have for ``slow`` (protocol.md 3.2)."""

CATCH_UP_SUBJECTS_MAX = 500
"""Subjects pulled level in one call: about 2 ms, after which everybody else has a turn."""


def policy(client: Client, topic: Topic) -> str:
    """Return the ``slow`` of a running subscription."""
    if client.recovering and topic in client.recovering:
        return client.recovering[topic].slow
    lag = client.lag
    return CONFLATE if lag is not None and (topic in lag.able or topic in lag.behind) else CLOSE


def allow(broker: Deliverer, client: Client, topic: Topic, slow: str) -> None:
    """Note the ``slow`` of a subscription that begins or is repeated; it is not behind."""
    if client.lag is not None:
        _forget_lost(broker, client, topic)
        client.lag.able.pop(topic, None)
    if slow == CONFLATE:
        if client.lag is None:
            client.lag = Lag()
        client.lag.able[topic] = None


def due(client: Client, limits: Limits) -> bool:
    """Return whether the client's queue is, or was until ``shed``, so long that ``begin`` has something to do."""
    lag, queue = client.lag, client.queue
    if lag is None or not lag.able:
        return False
    if queue is not None and queue.size > limits.lag_bytes + client.allowed:
        return True
    return any(topic in lag.able for topic in lag.lost)


def shed(broker: Deliverer, client: Client) -> bool:
    """Take out what may be conflated of the client's queue, which passed its bound; return whether the rest fits
    (features.md C6).

    The client is told here, so that it finds no gap unannounced; ``begin`` follows. Called while the broker writes:
    nothing but the client's own queue is touched.
    """
    lag, queue = client.lag, client.queue
    if lag is None or queue is None:
        return False
    topics = {topic.sid: topic for topic in (*lag.able, *lag.behind)}
    purged = queue.purge(topics, client.terms.wire)
    told = [sid for sid in purged if topics[sid] in lag.able and topics[sid] not in lag.lost]
    lag.lost.update(topics[sid] for sid in purged)
    if told:
        queue.push(client.terms.wire.event(Lagging(sids=told)))
    broker.counters.conflated_away += sum(purged.values())
    return queue.size <= broker.limits.outbox_bytes_max + client.allowed


def begin(broker: Deliverer, client: Client) -> None:
    """Begin the client's lag: from now on a number stands for what comes of its subscriptions that are able."""
    if client.closed or not due(client, broker.limits):
        return
    lag = client.lag
    assert lag is not None
    joined: list[SubjectFeed] = []
    for topic in lag.able:
        feed = client.subscriptions[topic]
        if topic.live is None:
            topic.live = ConflationState()
        number = feed.joining.pop(client, -1)
        if number >= 0:
            topic.live.lagging[client] = number
            broker.release(feed)
        else:
            topic.live.lagging[client] = feed.sent if feed.interval else topic.live.number
            joined.append(feed)
    sids = [topic.sid for topic in lag.able if topic not in lag.lost]  # those have been told
    for observer in broker.observers:
        observer.lagging(client, tuple(lag.able))
    lag.behind.update(lag.able)
    lag.able.clear()
    broker.move(client, [], joined)  # what was pending comes before the numbers, and is written by this
    if lag.lost and client.queue is not None:
        again = client.queue.purge({topic.sid for topic in lag.lost}, client.terms.wire)
        broker.counters.conflated_away += sum(again.values())
    split_messages.cache_clear()
    broker.counters.lags += 1
    if sids:
        broker.send(client, Lagging(sids=sids))


def catch_up(broker: Deliverer, client: Client) -> bool:
    """Pull the client's next subscriptions level, as its queue is empty; return whether some are still behind.

    At most ``CATCH_UP_SUBJECTS_MAX`` at once, and about half of ``Limits.lag_bytes``, so that however much there is to
    tell, this alone does not make the client lag again.
    """
    lag = client.lag
    if lag is None or client.closed or client.queue is not None or not lag.behind:
        return False
    room = broker.limits.lag_bytes // 2
    sids: list[int] = []
    results: list[Result] = []
    stored: list[bytes] = []
    frames: list[bytes] = []
    join: list[SubjectFeed] = []
    level: list[Topic] = []
    for topic in list(islice(lag.behind, CATCH_UP_SUBJECTS_MAX)):
        if room <= 0:
            break
        feed, number = _feed_again(broker, client, topic)
        live = topic.live
        assert live is not None
        frame: list[bytes] = []
        if topic in lag.lost:
            frame = anew(broker, client, topic, feed, results)
            stored += frame
            number = live.number
        else:
            if not feed.interval or number < feed.sent:  # it missed the end of an interval
                frame = _missed(broker, client, topic, number)
                frames += frame
                number = live.number
            sids.append(topic.sid)
        room -= sum(map(len, frame))
        if feed.interval and number > feed.sent:
            feed.joining[client] = number
        else:
            join.append(feed)
        del lag.behind[topic]
        lag.able[topic] = None
        lag.lost.discard(topic)
        level.append(topic)
        del live.lagging[client]
        broker.interest.tidy(topic)
    if frames or stored:
        broker.tell_base(client)
    if results:
        broker.bring(client, Subscribed(results=results), *stored)
    if sids:
        broker.bring(client, *frames, CaughtUp(sids=sids))
    broker.counters.messages_out += len(frames) + len(stored)
    broker.move(client, join, [])
    broker.flush_answers()  # the caller looks whether the client took them
    for observer in broker.observers:
        observer.caught_up(client, level)
    return bool(lag.behind)


def leave(broker: Deliverer, client: Client, topic: Topic) -> bool:
    """End the subscription; return whether it was behind, and so in no feed."""
    lag = client.lag
    if lag is None:
        return False
    _forget_lost(broker, client, topic)
    lag.able.pop(topic, None)
    if topic not in lag.behind:
        return False
    del lag.behind[topic]
    _let_go(broker, client, topic)
    return True


def drop(broker: Deliverer, client: Client) -> None:
    """Forget the lag of a client that is gone."""
    lag, client.lag = client.lag, None
    for topic in lag.behind if lag is not None else ():
        _let_go(broker, client, topic)


def tell(broker: Deliverer, topic: Topic, event: AnyAnswer) -> None:
    """Tell an event of the topic to those who are behind in it, after what came of it before."""
    live = topic.live
    if live is None:
        return
    for client, number in live.lagging.items():
        frame = _missed(broker, client, topic, number)
        live.lagging[client] = live.number
        if frame:
            broker.tell_base(client)
            broker.counters.messages_out += len(frame)
        broker.send(client, *frame, event)


def relieve(broker: Deliverer, topic: Topic, live: ConflationState[Client]) -> None:
    """Forget what nobody needs: more fields are gathered than may be, by a batch or by what other workers accepted.

    If that is not enough, those who lag go as in ``give_up``; then the intervals end early, which loses nothing.
    """
    live.forget(needed_from(topic, live, live.lagging.values()))
    if live.full and live.lagging:
        give_up(live)
        live.forget(needed_from(topic, live))
    if live.full:
        for feed in list((topic.conflated or {}).values()):
            broker.grid.fire(feed)
        live.forget(needed_from(topic, live))


def needed_from(topic: Topic, live: ConflationState[Client], lagging: Iterable[int] = ()) -> int:
    """Return the oldest number from which some feed, or somebody who lags, still needs the changes."""
    feeds = (topic.conflated or {}).values()
    return min((*lagging, *(min((feed.sent, *feed.joining.values())) for feed in feeds)), default=live.number)


def give_up(live: ConflationState[Client]) -> None:
    """Close those who lag, to resume later, when so many fields wait for them that a publication would be refused."""
    for client in live.lagging:
        reason = "over the bound of fields gathered while this client lagged"
        client.link.close(Close.SLOW_CONSUMER, f"{Close.SLOW_CONSUMER.label}: {reason}")
    live.lagging.clear()


def _feed_again(broker: Deliverer, client: Client, topic: Topic) -> tuple[SubjectFeed, int]:
    """Return the feed that the client follows next, and the number that the client stands at."""
    old, live = client.subscriptions[topic], topic.live
    assert live is not None
    feed = broker.grid.feed(topic, old.asked, old.phase)
    client.subscriptions[topic] = feed
    return feed, live.lagging[client]


def anew(broker: Deliverer, client: Client, topic: Topic, feed: SubjectFeed, results: list[Result]) -> list[bytes]:
    """Start the subscription anew, because the client does not get all of it: the frames that come first, its newest
    cached message where it has no snapshot.

    Where the subject was removed meanwhile that is told in place of the snapshot."""
    wire = client.terms.wire
    if not wire.numbered:
        frames = [stand_in(broker, topic, wire)]
    elif (state := broker.state(topic)) is not None:
        found = state.as_message(topic.subject, topic.epoch, topic.seq)
        frames = [broker.frame(found, topic, wire, "snapshot")]
    else:
        newest = broker.history.newest(topic.ring, 1)
        frames = [broker.frame(message, topic, wire, "historical") for message in newest]
    broker.counters.resynchronisations += 1
    results.append(
        Result(
            subject=topic.subject,
            pattern=pattern_of(client, topic),
            sid=topic.sid,
            epoch=topic.epoch,
            seq=topic.seq,
            recovery="resynchronised",
            messages=len(frames),
            conflation=feed.interval,
        )
    )
    return frames


def stand_in(broker: Deliverer, topic: Topic, wire: Wire, *, live: bool = False) -> bytes:
    """Return what stands for messages that a client has missed for good who sees no numbers: the subject's retained
    message, or that it was removed; where there is neither, that they are missing. ``live``: all have missed them."""
    state = broker.state(topic)
    if state is not None:
        found = state.as_message(topic.subject, topic.epoch, topic.seq)
        message = found if state.removed else wire.retained(found, state.newest)
        if message is not None:
            return broker.frame(message, topic, wire, LIVE_STAND_IN if live else STAND_IN)
    return wire.gap(topic.subject, topic.sid, topic.epoch, topic.seq, live=live)


def _missed(broker: Deliverer, client: Client, topic: Topic, number: int) -> list[bytes]:
    """Return one frame for all that came of the topic after ``number``, none when nothing did; two where it was removed
    meanwhile."""
    live, lag = topic.live, client.lag
    messages = live.since(number) if live is not None else []
    if live is None or not messages or (lag is not None and topic in lag.lost):
        return []
    broker.counters.conflated_away += live.number - number - len(messages)
    return [broker.frame(message, topic, client.terms.wire) for message in messages]


def _forget_lost(broker: Deliverer, client: Client, topic: Topic) -> None:
    """Forget what came of the subscription behind what it has lost, as nothing makes that good."""
    lag, queue = client.lag, client.queue
    if lag is None or topic not in lag.lost:
        return
    lag.lost.discard(topic)
    if queue is not None:
        broker.level(client)
        broker.counters.conflated_away += sum(queue.purge({topic.sid}, client.terms.wire).values())


def _let_go(broker: Deliverer, client: Client, topic: Topic) -> None:
    if topic.live is not None:
        topic.live.lagging.pop(client, None)
    broker.interest.tidy(topic)
