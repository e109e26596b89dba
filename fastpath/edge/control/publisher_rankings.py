"""The control verb ``publishers``: who publishes over a port, how much, and how far behind it is (protocol.md 8)."""

from __future__ import annotations

from heapq import nlargest
from typing import Any, Protocol, cast

from ...core.auth.grants import Principal
from ...core.telemetry import senders
from ..runtime import publisher_accounts
from ..runtime.component import Answer, ControlPeer, Done, Offers
from ..runtime.connection_names import PUBLISHER, connection_id
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Work, away_of, chosen
from ..telemetry.figures import Statistics

LIMIT_DEFAULT, LIMIT_MAX = 100, 1000
"""Publishers in an answer."""

SENDERS_MAX = 2000
"""Senders in an answer: all of them, but of a node with many workers that have all that they may remember."""

LOOKED_AT = 100
"""Publishers looked at between two interruptions."""


class Supplier(Protocol):
    """A publisher's connection, as far as it matters here."""

    number: int
    address: str
    name: str
    since: int
    progress: publisher_accounts.Progress

    @property
    def principal(self) -> Principal | None:
        """The principal who publishes; None before its hello."""


class PublisherRankings:
    """Tells of the publishers of all workers, those that wait longest for an answer first, then the busiest."""

    def __init__(self, runtime: Runtime, statistics: Statistics) -> None:
        self._runtime = runtime
        self.offers = Offers(
            verbs={} if runtime.workers.follows else {"publishers": self._ask}, questions={"suppliers": self._tell}
        )
        statistics.each_second.append(self._mark)

    def _mark(self) -> None:
        for publisher in cast("set[Supplier]", self._runtime.publisher_connections):
            publisher.progress.mark()
            self._gather(publisher)
        self._runtime.accounts.mark(now())

    def _gather(self, publisher: Supplier) -> None:
        if publisher.principal is not None:
            self._runtime.accounts.gather(publisher.principal.user, publisher.name, publisher.progress)

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        limit = chosen(arguments.get("limit"), 1, LIMIT_MAX, "limit", LIMIT_DEFAULT)
        number = peer.request

        def told(answers: dict[int, Answer], away: list[int]) -> None:
            rows = [row for answer in answers.values() for row in answer.get("publishers", ())]
            total = sum(answer.get("total", 0) for answer in answers.values())
            missed = away_of(answers, away)
            # Added up before any is left out, here as in who adds up nodes: what each has of one may be little.
            sent = senders.together(row for answer in answers.values() for row in answer.get("senders", ()))
            found = {"publishers": nlargest(limit, rows, key=_weight), "total": total, "away": missed}
            peer.reply(number, found | {"senders": senders.shown(sent, SENDERS_MAX)})

        self._runtime.scatter.ask("suppliers", {"limit": limit}, told)

    def _tell(self, arguments: Answer, done: Done) -> None:
        self._runtime.scatter.run(self._look(int(arguments["limit"])), done)

    def _look(self, limit: int) -> Work:
        moment = now()
        rows, total = [], 0
        waiting: list[tuple[publisher_accounts.Key, int, int]] = []
        for index, publisher in enumerate(cast("list[Supplier]", list(self._runtime.publisher_connections))):
            if publisher.principal is not None:
                self._gather(publisher)
                rows.append(self._row(publisher, moment))
                total += 1
                waiting += _waiting(publisher, publisher.principal.user)
            if index % LOOKED_AT == LOOKED_AT - 1:
                rows = nlargest(limit, rows, key=_weight)
                yield
        sent = yield from self._runtime.accounts.rows(waiting, moment)
        return {"publishers": nlargest(limit, rows, key=_weight), "total": total, "senders": sent}

    def _row(self, publisher: Supplier, moment: int) -> Answer:
        progress = publisher.progress
        staging = progress.staging()
        since = min((frame.moment for frame in staging), default=moment)
        row = {
            "connection": connection_id(self._runtime, publisher.number, PUBLISHER),
            "publisher": publisher.name,
            "user": publisher.principal.user if publisher.principal is not None else "",
            "address": publisher.address,
            "since": publisher.since,
            "messages": progress.messages,
            "messages_per_s": progress.messages_per_s,
            "unacknowledged": progress.unacknowledged + sum(frame.rows for frame in staging),
            "batches": progress.batches + len(staging),
            "oldest_ms": max(progress.oldest_ms(moment), moment - since),
            "last_ms": progress.last,
        }
        return row | ({"transaction": progress.transaction} if progress.transaction else {})


def _waiting(publisher: Supplier, user: str) -> list[tuple[publisher_accounts.Key, int, int]]:
    """Return what of one connection has no answer: whose it is, how many messages, since when."""
    progress = publisher.progress
    found = [
        ((user, publisher_accounts.TRANSACTION, one.transaction), one.rows, one.moment) for one in progress.staging()
    ]
    if progress.batches:
        found.append(((user, publisher_accounts.PUBLISHER, publisher.name), progress.unacknowledged, progress.since))
    return found


def _weight(row: Answer) -> tuple[int, float]:
    return row["oldest_ms"], row["messages_per_s"]
