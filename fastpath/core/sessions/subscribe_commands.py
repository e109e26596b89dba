"""The commands that subscribe and unsubscribe: subjects and patterns, and their answers (protocol.md 3.2, 3.3, 3.8)."""

from __future__ import annotations

from ..delivery import slow_consumers
from ..delivery.audience import Client, SubjectFeed, Topic
from ..protocol.errors import InvalidMessage
from ..protocol.limits import SINCE_CHECKS_MAX, SUBJECTS_PER_COMMAND_MAX
from ..protocol.messages import Result, Subscribe, Subscribed, Unsubscribe, Unsubscribed
from ..protocol.subject import is_wildcard
from .pattern_subscriptions import PatternSubscriber


def subscribe(wildcards: PatternSubscriber, client: Client, command: Subscribe, now: int) -> None:
    """Begin what may begin, and answer; raises InvalidMessage."""
    if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
        raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
    if command.slow not in slow_consumers.POLICIES:
        raise InvalidMessage("invalid", 'slow is "close" or "conflate"')
    if command.history < 0 or command.conflation < 0:
        raise InvalidMessage("invalid", "history and conflation are not negative")
    patterns = sum(map(is_wildcard, command.subjects))
    if patterns * len(command.since) > SINCE_CHECKS_MAX:
        raise InvalidMessage("limit", f"over {SINCE_CHECKS_MAX} positions times patterns in one command")
    subscriptions = wildcards.subscriptions
    broker = subscriptions.broker
    broker.level(client)
    results: list[Result] = []
    stored: list[bytes] = []
    join: list[SubjectFeed] = []
    room = subscriptions.room(client)
    for subject in dict.fromkeys(command.subjects):
        if is_wildcard(subject):
            results.append(wildcards.add(client, subject, command))
            continue
        result, frames, feed = subscriptions.begin(client, subject, command, now, room)
        wildcards.own(client, subject)
        results.append(result)
        stored += frames.frames
        if feed is not None:
            join.append(feed)
    if stored:
        broker.tell_base(client)
    broker.send(client, Subscribed(id=command.id, results=results), *stored)
    broker.counters.messages_out += len(stored)
    broker.move(client, join, [])
    if broker.observers and (refused := [result for result in results if result.error]):
        for observer in broker.observers:
            observer.denied(client, refused)
    wildcards.again(client)
    wildcards.step(now, client)


def unsubscribe(wildcards: PatternSubscriber, client: Client, command: Unsubscribe, now: int) -> None:
    """End them, and answer; raises InvalidMessage."""
    if len(command.subjects) > SUBJECTS_PER_COMMAND_MAX:
        raise InvalidMessage("limit", f"over {SUBJECTS_PER_COMMAND_MAX} subjects in one command")
    broker = wildcards.subscriptions.broker
    ended: list[str] = []
    topics: list[Topic] = []
    patterns: set[str] = set()
    for subject in dict.fromkeys(command.subjects):
        topic = broker.interest.topics.get(subject)
        if client.wilds and subject in client.wilds:
            patterns.add(subject)
        elif client.wilds and wildcards.brought(client, subject):
            continue  # a pattern brought it, and ends it
        elif topic is not None and topic in client.subscriptions:
            topics.append(topic)
        elif client.waiting and client.waiting.pop(subject, None):
            broker.counters.waiting -= 1
        else:
            continue
        ended.append(subject)
    if patterns:
        topics += wildcards.remove(client, patterns)
    standing = wildcards.standing(client, topics) if client.wilds else {}
    wildcards.subscriptions.leave_all(client, topics)
    for observer in broker.observers:
        observer.unsubscribed(client, topics, "")
    broker.send(client, Unsubscribed(id=command.id, subjects=ended))
    if client.wilds:
        wildcards.inherit(client, topics, standing, now)
        wildcards.again(client)
        wildcards.step(now, client)
