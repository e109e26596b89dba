"""What a client's command is about, and to how many a message goes, as traces tell it: bounded, without tokens."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from ...core.delivery.audience import SubjectFeed
from ...core.protocol.messages import Advertise, AnyCommand, Connect, Presence, Subscribe, Unsubscribe
from ..audit.events import short
from ..runtime.component import Answer

NAMED_MAX = 20
"""Subjects that are named; of others only how many there are is told."""

LOOKED_MAX = 1000
"""Groups of a subject, slow clients, and subscriptions of a client that ends, that are looked at for one event."""


def members(feeds: Iterable[SubjectFeed | None]) -> tuple[int, bool]:
    """Return how many clients follow the feeds, and whether there are more, at whom is not looked."""
    groups = chain.from_iterable(feed.groups for feed in feeds if feed is not None)
    count = sum(len(group) for group in islice(groups, LOOKED_MAX))
    return count, next(groups, None) is not None


def detail(command: AnyCommand) -> Answer:
    """Return what a command is about; of a token nothing."""
    match command:
        case Subscribe():
            named = [short(subject) for subject in command.subjects[:NAMED_MAX]]
            return {
                "subjects": named,
                "count": len(command.subjects),
                "history": command.history,
                "conflation": command.conflation,
                "slow": command.slow,
                "since": len(command.since),
            }
        case Unsubscribe():
            named = [short(subject) for subject in command.subjects[:NAMED_MAX]]
            return {"subjects": named, "count": len(command.subjects)}
        case Connect():
            return {"program": short(command.client), "publisher": short(command.publisher)}
        case Presence():
            return {"subject": short(command.subject)}
        case Advertise():
            return {"patterns": [short(pattern) for pattern in command.patterns[:NAMED_MAX]]}
    return {}
