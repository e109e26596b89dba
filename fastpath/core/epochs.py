"""A subject goes on in another epoch, or stands elsewhere than was delivered: everybody is told (protocol.md 4.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .messages import Epoch, Message
from .snapshot import Snapshot

if TYPE_CHECKING:
    from .broker import Broker
    from .interest import Topic


def restart(broker: Broker, topic: Topic, epoch: int, seq: int, snapshot: Snapshot | None = None) -> None:
    """The subject stands at this message with this snapshot, whatever was delivered of it.

    Of the cache stays what leads there.
    """
    history = broker.history
    history.cut(topic, seq + 1)
    if not topic.ring or (topic.ring[-1].epoch, topic.ring[-1].seq) != (epoch, seq):
        history.drop(topic)
        if epoch != topic.epoch and seq:  # what was read under the same number may be another message
            _tell(broker, topic, epoch, 0)
    topic.snapshot = snapshot
    _tell(broker, topic, epoch, seq)
    topic.epoch, topic.seq = epoch, seq
    if broker.restarted is not None:
        broker.restarted(topic)


def begin(broker: Broker, topic: Topic, message: Message) -> None:
    """The subject goes on in the message's epoch: what is numbered as it and above is void."""
    before = message.seq - 1
    if topic.seq > before:
        broker.history.cut(topic, message.seq)
    if topic.seq == before and not topic.ring:
        topic.floor = topic.epoch
    _tell(broker, topic, message.epoch, before)
    topic.epoch = message.epoch


def _tell(broker: Broker, topic: Topic, epoch: int, seq: int) -> None:
    for feed in list((topic.conflated or {}).values()):
        broker.grid.fire(feed)  # what came counts in the epoch that it came in
    broker.tell(topic, Epoch(sid=topic.sid, epoch=epoch, seq=seq))
