"""A subject goes on in another epoch, or stands elsewhere than was delivered: everybody is told (protocol.md 4.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cache.snapshot import Snapshot
from ..protocol.as_of import NO_VERSION, version_of
from ..protocol.messages import Epoch

if TYPE_CHECKING:
    from ..delivery.interest import Topic
    from .broker import Broker


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
    topic.version = NO_VERSION if snapshot is None else version_of(snapshot.newest.as_of)
    _tell(broker, topic, epoch, seq)
    topic.epoch, topic.seq = epoch, seq
    if broker.restarted is not None:
        broker.restarted(topic)


def begin(broker: Broker, topic: Topic, epoch: int, seq: int) -> None:
    """The subject goes on in the epoch: what is numbered ``seq`` and above is void."""
    before = seq - 1
    if topic.seq > before:
        broker.history.cut(topic, seq)
    if topic.seq == before and not topic.ring:
        topic.floor = topic.epoch
    _tell(broker, topic, epoch, before)
    topic.epoch = epoch


def _tell(broker: Broker, topic: Topic, epoch: int, seq: int) -> None:
    for feed in list((topic.conflated or {}).values()):
        broker.grid.fire(feed)  # what came counts in the epoch that it came in
    broker.tell(topic, Epoch(sid=topic.sid, epoch=epoch, seq=seq))
