"""A reader that lags, and checks all that it is told."""

from __future__ import annotations

from fastpath.core.broker.broker import Broker
from fastpath.core.protocol.messages import (
    CaughtUp,
    Data,
    Lagging,
    Subscribed,
    Unsubscribed,
)
from tests.support.core.stage import Actor

SUBJECTS = ("/s/1", "/s/2", "/s/3", "/s/4")


class Reader:
    """What a client knows of its subjects, from the wire alone; it fails at a gap that was not announced."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.slow: dict[str, str] = {}
        self.every: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.content: dict[str, str] = {}
        self.fields: dict[str, dict[str, str]] = {}
        self.behind: set[str] = set()
        self.lagged = 0

    def read(self) -> None:
        """Take in what came."""
        for one in self.actor.taken():
            match one:
                case Subscribed():
                    for result in one.results:
                        self.behind.discard(result.subject)
                        if not result.error:
                            self.last[result.subject] = result.seq
                            self.every[result.subject] = result.conflation
                            if result.messages == 0:
                                self.content[result.subject], self.fields[result.subject] = "", {}
                case Unsubscribed():
                    self.behind.difference_update(one.subjects)
                case Lagging():
                    self.lagged += 1
                    for sid in one.sids:
                        assert self.actor.subjects[sid] not in self.behind
                        self.behind.add(self.actor.subjects[sid])
                case CaughtUp():
                    for sid in one.sids:
                        self.behind.remove(self.actor.subjects[sid])
                case Data():
                    self.message(self.actor.subjects[one.sid], one)

    def message(self, subject: str, one: Data) -> None:
        """A snapshot, or an update in its place."""
        self.content[subject] = one.content
        if one.meta.kind:
            self.fields[subject] = dict(one.fields)
            return
        if one.meta.removed:
            self.fields[subject] = {}
        self.fields[subject].update(one.fields)
        if one.seq:
            assert one.seq > self.last[subject], "never backwards, nothing twice"
            assert one.seq == self.last[subject] + 1 or subject in self.behind or self.every[subject], "told"
            self.last[subject] = one.seq


def nothing_is_left(broker: Broker) -> bool:
    """Whether nobody's subscription has left a trace."""
    topics = broker.interest.topics.values()
    used = [topic for topic in topics if topic.live is not None or topic.feed is not None or topic.conflated]
    return not (used or broker.interest.groups or len(broker.grid) or broker.counters.subscriptions)
