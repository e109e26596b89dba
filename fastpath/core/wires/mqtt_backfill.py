"""What the session of a client of MQTT has missed for good while it was away.

Where there is anything the session is not present any more (decision 43).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..auth.reasons import PENDING
from ..auth.rules import SUBSCRIBE
from ..mqtt.publications import as_retained, expiry_of
from ..mqtt.topics import name_of
from ..protocol.messages import STANDARD
from ..protocol.subject import is_system

if TYPE_CHECKING:
    from ..auth.grants import Principal
    from ..broker.broker import Broker
    from ..delivery.audience import Topic
    from ..mqtt.session import MqttSession, Options

LOOKS_MAX = 2000
"""Filters that are held against subjects before the client is answered: some 5 ms. What is not found by then is found
when it is read, which ends the connection (core/mqtt/outgoing.py)."""

SUBJECT_LOOKS = 5
"""Number of looks that a subject counts for besides, of which the cache does not reach back."""


def missed(broker: Broker, principal: Principal, session: MqttSession, now: int) -> str:
    """Return a subject of which messages are lacking between where the session stands and where the cache begins, of
    which the client was to get each, and for which nothing stands that it will be sent; empty if none is known. ``now``
    in ms."""
    if not any(one.filter.qos for one in session.subscriptions.values()):
        return ""
    looks = 0
    for subject, (epoch, seq) in session.since().items():
        if broker.ahead(subject, epoch, seq):
            continue  # what is there has not come to this process yet
        topic = broker.interest.topics.get(subject)
        if topic is None:
            if not seq:
                continue
        elif broker.stands_there(topic, epoch if seq else topic.epoch, seq):
            continue
        if not name_of(subject) or is_system(subject):
            continue
        reason = broker.grants.check(principal, SUBSCRIBE, subject, now)
        if reason and reason not in PENDING:
            continue
        looks += SUBJECT_LOOKS + session.searched
        if looks > LOOKS_MAX:
            break
        if _lacks(broker, session, subject, topic, now):
            return subject
    return ""


def _lacks(broker: Broker, session: MqttSession, subject: str, topic: Topic | None, now: int) -> bool:
    name = name_of(subject)
    options = session.find_options(name, subject)
    if options is not None and options.qos:
        return topic is None or not _is_stood_for(broker, topic, options, now)
    return session.was_deserted(name)


def _is_stood_for(broker: Broker, topic: Topic, options: Options, now: int) -> bool:
    """Return whether the client will be told by the subject's retained message, or by its removal, which it
    acknowledges."""
    state = broker.state(topic)
    if state is None or state.removed:
        return state is not None
    message = as_retained(state.as_message(topic.subject, topic.epoch, topic.seq), state.newest)
    if message is None or not options.wants or message.qos == STANDARD:
        return False
    expires = expiry_of(message)
    return not expires or expires > now
