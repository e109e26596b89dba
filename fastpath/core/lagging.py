"""Clients that lag and agreed to conflation: what waits for them is a number a subscription, not bytes (FEATURES C6).

A subscription made with ``slow="conflate"`` is **able** while its client keeps up. When the client's queue passes
``Limits.lag_bytes`` all of them fall **behind**: they leave their feeds, and the topic's live state
(core/conflation.py) keeps the number of the last publication that was queued for each. When the queue is empty they
are pulled level: one message for all that came since, then live again. The client is told both times (protocol.md
4.13).

The edge calls ``begin`` and ``catch_up`` between two handlers, never while the broker writes.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from .conflation import Live
from .errors import Close
from .messages import AnyAnswer, CaughtUp, Lagging

if TYPE_CHECKING:
    from .broker import Broker
    from .client import Client
    from .interest import Feed, Topic
    from .limits import Limits

CLOSE = "close"
CONFLATE = "conflate"
POLICIES = (CLOSE, CONFLATE)
"""What a subscription may say of ``slow`` (protocol.md 3.2)."""

CATCH_UP_SUBJECTS_MAX = 500
"""Subjects pulled level in one call: about a ms, after which everybody else has a turn."""


class Lag:
    """A client's subscriptions that may be conflated while it lags: ``able`` follow, ``behind`` do not at present."""

    __slots__ = ("able", "behind")

    def __init__(self) -> None:
        self.able: dict[Topic, None] = {}
        self.behind: dict[Topic, None] = {}


def policy(client: Client, topic: Topic) -> str:
    """The ``slow`` of a running subscription."""
    lag = client.lag
    return CONFLATE if lag is not None and (topic in lag.able or topic in lag.behind) else CLOSE


def allow(client: Client, topic: Topic, slow: str) -> None:
    """Note the ``slow`` of a subscription that begins or is repeated; it is not behind."""
    if slow == CONFLATE:
        if client.lag is None:
            client.lag = Lag()
        client.lag.able[topic] = None
    elif client.lag is not None:
        client.lag.able.pop(topic, None)


def due(client: Client, limits: Limits) -> bool:
    """Whether the client's queue is so long that ``begin`` has something to do."""
    lag, queue = client.lag, client.queue
    return bool(lag is not None and lag.able and queue is not None and queue.size > limits.lag_bytes)


def begin(broker: Broker, client: Client) -> None:
    """The client lags: from now on a number stands for what comes of its subscriptions that are able."""
    if client.closed or not due(client, broker.limits):
        return
    lag = client.lag
    assert lag is not None
    joined: list[Feed] = []
    for topic in lag.able:
        feed = client.subscriptions[topic]
        if topic.live is None:
            topic.live = Live()
        number = feed.joining.pop(client, -1)
        if number >= 0:
            topic.live.lagging[client] = number
            broker.release(feed)
        else:
            topic.live.lagging[client] = feed.sent if feed.interval else topic.live.number
            joined.append(feed)
    sids = [topic.sid for topic in lag.able]
    lag.behind.update(lag.able)
    lag.able.clear()
    broker.move(client, [], joined)  # what was pending comes before the numbers, and is written by this
    broker.counters.lags += 1
    broker.send(client, Lagging(sids=sids))


def catch_up(broker: Broker, client: Client) -> bool:
    """The client's queue is empty: pull its next subscriptions level; whether some are still behind.

    At most ``CATCH_UP_SUBJECTS_MAX`` at once, and about half of ``Limits.lag_bytes``, so that however much there is to
    tell, this alone does not make the client lag again. A conflated subscription gets its message when its interval
    ends.
    """
    lag = client.lag
    if lag is None or client.closed or client.queue is not None or not lag.behind:
        return False
    room = broker.limits.lag_bytes // 2
    sids: list[int] = []
    frames: list[bytes] = []
    join: list[Feed] = []
    for topic in list(islice(lag.behind, CATCH_UP_SUBJECTS_MAX)):
        if room <= 0:
            break
        del lag.behind[topic]
        lag.able[topic] = None
        sids.append(topic.sid)
        live, feed = topic.live, client.subscriptions[topic]
        assert live is not None
        number = live.lagging[client]
        if feed.interval:
            client.subscriptions[topic] = feed = broker.conflated(topic, feed.interval, feed.phase)
            feed.joining[client] = number
        else:
            frame = _missed(broker, client, topic, number)
            frames += frame
            room -= sum(map(len, frame))
            client.subscriptions[topic] = feed = broker.interest.live_feed(topic)
            join.append(feed)
        del live.lagging[client]
        broker.interest.tidy(topic)
    if frames:
        broker.tell_base(client)
    broker.send(client, *frames, CaughtUp(sids=sids))
    broker.counters.messages_out += len(frames)
    broker.move(client, join, [])
    return bool(lag.behind)


def leave(broker: Broker, client: Client, topic: Topic) -> bool:
    """The subscription ends; whether it was behind, and so in no feed."""
    lag = client.lag
    if lag is None:
        return False
    lag.able.pop(topic, None)
    if topic not in lag.behind:
        return False
    del lag.behind[topic]
    _let_go(broker, client, topic)
    return True


def drop(broker: Broker, client: Client) -> None:
    """The client is gone."""
    lag, client.lag = client.lag, None
    for topic in lag.behind if lag is not None else ():
        _let_go(broker, client, topic)


def tell(broker: Broker, topic: Topic, event: AnyAnswer) -> None:
    """Tell an event of the topic to those who are behind in it, after what came of it before."""
    live = topic.live
    if live is None:
        return
    for client, number in live.lagging.items():
        frame = _missed(broker, client, topic, number)
        live.lagging[client] = live.number
        if frame:
            broker.tell_base(client)
            broker.counters.messages_out += 1
        broker.send(client, *frame, event)


def give_up(live: Live) -> None:
    """So many fields wait for those who lag that a publication would have to be refused: they go, and resume later."""
    for client in live.lagging:
        reason = "over the bound of fields gathered while this client lagged"
        client.link.close(Close.SLOW_CONSUMER, f"{Close.SLOW_CONSUMER.label}: {reason}")
    live.lagging.clear()


def _missed(broker: Broker, client: Client, topic: Topic, number: int) -> list[bytes]:
    """One message for all that came of the topic after ``number``, as a frame; none when nothing did."""
    live = topic.live
    message = live.since(number) if live is not None else None
    if live is None or message is None:
        return []
    broker.counters.conflated_away += live.number - number - 1
    return [broker.frame(message, topic, client.form)]


def _let_go(broker: Broker, client: Client, topic: Topic) -> None:
    if topic.live is not None:
        topic.live.lagging.pop(client, None)
    broker.interest.tidy(topic)
