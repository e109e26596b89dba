"""The control verb ``top``: the subjects with most messages, bytes, subscribers or deliveries (protocol.md 8)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from heapq import nlargest
from typing import Any

from ...core.delivery.audience import SubjectFeed, Topic
from ...core.protocol.errors import InvalidMessage
from ...core.telemetry.heavy_hitters import Counts, HeavyHitters
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.runtime import Runtime
from ..runtime.scatter import ANSWER_SECONDS, Gathered, Work, away_of, chosen
from ..telemetry.figures import Statistics

LIMIT_DEFAULT, LIMIT_MAX = 20, 100
"""Subjects in an answer."""

CANDIDATES_MAX = 500
"""Subjects that are looked at closely, by all workers: those with most messages, and of each worker those with most
subscribers."""

LOOKED_AT = 200
"""Groups, or subjects without any, that are looked at between two interruptions: a fraction of a millisecond."""

_ORDERS = {
    "rate": "messages_per_s",
    "bytes": "bytes_per_s",
    "subscribers": "subscribers",
    "deliveries": "deliveries_per_s",
}


class Rankings:
    """Samples what is published on the first worker, where every message comes by; subscribers are counted by every
    worker when somebody asks."""

    def __init__(self, runtime: Runtime, statistics: Statistics) -> None:
        self._runtime = runtime
        leads = not runtime.workers.follows
        self.offers = Offers(
            verbs={"top": self._ask} if leads else {},
            questions={"crowds": self._crowds, "crowded": self._crowded},
        )
        self._heat: HeavyHitters | None = None
        if leads and runtime.settings.statistics:
            counters = runtime.broker.counters
            self._heat = HeavyHitters(counters.messages_in)
            self._turned = time.monotonic()
            runtime.broker.sample_from(self._heat.next, self._heat.look)
            statistics.each_second.append(self._turn)

    # What is published

    def _turn(self) -> None:
        broker, moment = self._runtime.broker, time.monotonic()
        assert self._heat is not None
        self._heat.turn(broker.counters.messages_in, moment - self._turned)
        self._turned = moment
        broker.sample_from(self._heat.next, self._heat.look)

    # The question

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        order = _ORDERS.get(arguments.get("by", "rate"))
        if order is None:
            raise InvalidMessage("invalid", f"by is one of {', '.join(_ORDERS)}")
        limit = chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_DEFAULT)
        number, scatter = peer.request, self._runtime.scatter
        until = self._runtime.loop.time() + ANSWER_SECONDS  # of all questions together
        rates: dict[str, tuple[float, float]] = {}
        missed: set[int] = set()

        def sampled(answer: Answer) -> None:
            nonlocal rates
            if "failed" in answer:
                peer.refuse(number, *answer["failed"])
                return
            rates = answer["rates"]
            if order == "subscribers":
                ask("crowded", {"limit": CANDIDATES_MAX}, found, ANSWER_SECONDS / 2)
            else:
                count_crowds(answer["first"])

        def found(answers: dict[int, Answer], away: list[int]) -> None:
            missed.update(away_of(answers, away))
            crowds: dict[str, int] = {}
            for answer in answers.values():
                for subject, count in answer.get("subjects", ()):
                    crowds[subject] = crowds.get(subject, 0) + count
            count_crowds(nlargest(limit * 2, crowds, key=lambda subject: crowds[subject]))

        def count_crowds(subjects: Iterable[str]) -> None:
            question = {"subjects": [[one, rates.get(one, (0.0, 0.0))[0]] for one in subjects]}
            ask("crowds", question, told, max(until - self._runtime.loop.time(), 0))

        def ask(kind: str, question: Answer, gathered: Gathered, seconds: float) -> None:
            try:
                scatter.ask(kind, question, gathered, seconds=seconds)
            except InvalidMessage as error:
                peer.refuse(number, error.code, error.reason)

        def told(answers: dict[int, Answer], away: list[int]) -> None:
            rows: dict[str, list[float]] = {}
            for answer in answers.values():
                for subject, subscribers, deliveries in answer.get("subjects", ()):
                    row = rows.setdefault(subject, [0, 0.0])
                    row[0] += subscribers
                    row[1] += deliveries
            missed.update(away_of(answers, away))
            found = {"subjects": _rows(rows, rates, order, limit), "away": sorted(missed)}
            peer.reply(number, found | {"shared": self._runtime.broker.engine.shared})

        count = CANDIDATES_MAX if order == "deliveries_per_s" else limit
        scatter.run(self._rates(count, 1 if order == "bytes_per_s" else 0), sampled)

    def _rates(self, count: int, column: int) -> Work:
        """Return messages and bytes per second by subject, and the first subjects by one of the two."""
        totals: Counts = {}
        seconds = 1.0
        if self._heat is not None:
            totals, seconds = yield from self._heat.totals()
        rates: dict[str, tuple[float, float]] = {}
        first: list[str] = []
        some: list[str] = []
        for subject, (messages, size) in totals.items():
            rates[subject] = messages / seconds, size / seconds
            some.append(subject)
            if len(some) >= LOOKED_AT or len(rates) == len(totals):
                first, some = nlargest(count, first + some, key=lambda one: rates[one][column]), []
                yield
        return {"rates": rates, "first": first}

    # What every worker answers

    def _crowds(self, arguments: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._count(arguments["subjects"]), done)

    def _crowded(self, arguments: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._scan(int(arguments["limit"])), done)

    def _count(self, subjects: list[list[Any]]) -> Work:
        """Return subscribers and deliveries per second of each subject, whose messages per second are given."""
        topics = self._runtime.broker.interest.topics
        rows = []
        for subject, rate in subjects:
            topic = topics.get(subject)
            subscribers, deliveries = (yield from _crowd(topic, rate)) if topic is not None else (0, 0.0)
            rows.append([subject, subscribers, deliveries])
        return {"subjects": rows}

    def _scan(self, limit: int) -> Work:
        """Return the subjects with most subscribers here: by the groups, of which there are no more than clients, where
        there may be a million subjects."""
        crowds: dict[Topic, int] = {}
        looked = 0
        for group in list(self._runtime.broker.interest.groups.values()):
            members = len(group)
            for feed in list(group.feeds):
                topic = feed.topic
                if topic is not None:  # the mark of a cohort has none
                    crowds[topic] = crowds.get(topic, 0) + members
                looked += 1
                if looked % LOOKED_AT == 0:
                    yield
        best: list[tuple[int, str]] = []
        some: list[tuple[int, str]] = []
        for topic, count in crowds.items():
            some.append((count, topic.subject))
            if len(some) >= limit:
                best, some = nlargest(limit, best + some), []
                yield
        return {"subjects": [[subject, count] for count, subject in nlargest(limit, best + some)]}


def _crowd(topic: Topic, rate: float) -> Any:
    """Return the subscribers of a subject here, and how many messages per second they get of ``rate``; yields as Work
    does.

    A conflated feed brings one message an interval at most; who lags behind gets none meanwhile.
    """
    subscribers, deliveries = 0, 0.0
    for feed in (topic.feed, *(topic.conflated or {}).values()):
        if feed is None:
            continue
        members = yield from _members(feed)
        subscribers += members
        deliveries += members * (min(rate, 1000 / feed.interval) if feed.interval else rate)
    return subscribers + (len(topic.live.lagging) if topic.live is not None else 0), deliveries


def _members(feed: SubjectFeed) -> Any:
    """Return how many clients follow the feed; where each of many has a group of its own it takes more than a
    moment."""
    count = len(feed.joining) + feed.recovering
    for index, group in enumerate(list(feed.groups)):
        count += len(group)
        if index % LOOKED_AT == LOOKED_AT - 1:
            yield
    return count


def _rows(
    counted: dict[str, list[float]], rates: dict[str, tuple[float, float]], order: str, limit: int
) -> list[dict[str, Any]]:
    column = tuple(_ORDERS.values()).index(order)
    rows = []
    for subject, (subscribers, deliveries) in counted.items():
        row = (*rates.get(subject, (0.0, 0.0)), subscribers, deliveries)
        if row[column]:
            rows.append((row[column], subject, row))
    return [
        {
            "subject": subject,
            "messages_per_s": round(messages, 1),
            "bytes_per_s": round(size, 1),
            "subscribers": int(subscribers),
            "deliveries_per_s": round(deliveries, 1),
        }
        for _, subject, (messages, size, subscribers, deliveries) in nlargest(limit, rows)
    ]
