"""The control verb ``subjects``: subjects in use, by pattern or prefix, a page at a time (protocol.md 8.1)."""

from __future__ import annotations

from heapq import nsmallest
from typing import Any

from ...core.delivery.audience import Topic
from ...core.matching.subscribed_patterns import covers
from ...core.protocol.errors import InvalidMessage
from ...core.protocol.subject import check_pattern
from ..runtime.component import Answer, ControlPeer, Offers
from ..runtime.runtime import Runtime
from ..runtime.scatter import Work, answer_to

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
"""Subjects in one answer."""

SLICE_SUBJECTS = 100
"""Subjects looked at between two interruptions."""

SEARCHES_MAX = 4
"""Searches at the same time: each holds a list of all subjects while it runs."""


class Subjects:
    """Answers the verb; it looks at all subjects, in slices."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running = 0
        self.offers = Offers(verbs={"subjects": self._ask})

    def _ask(self, peer: ControlPeer, arguments: dict[str, Any]) -> None:
        """Search by ``pattern`` or ``prefix``, ``after`` (the last subject of the page before), ``limit``; answers
        later."""
        search = _Search(arguments)
        if self._running >= SEARCHES_MAX:
            raise InvalidMessage("limit", f"{SEARCHES_MAX} searches are under way; ask again")
        self._running += 1
        number = peer.request

        def done(answer: Answer) -> None:
            self._running -= 1
            answer_to(peer, number, answer)

        self._runtime.scatter.run(self._look(search), done)

    def _look(self, search: _Search) -> Work:
        topics = self._runtime.broker.interest.topics
        names = list(topics)
        for at in range(0, len(names), SLICE_SUBJECTS):
            search.look(names[at : at + SLICE_SUBJECTS], topics)
            yield
        return self._answer(search)

    def _answer(self, search: _Search) -> dict[str, Any]:
        """Return where each subject stands now; one that nobody uses any more by now stands at nothing."""
        topics = self._runtime.broker.interest.topics
        rows = []
        for subject in search.page():
            topic = topics.get(subject)
            snapshot = _has_snapshot(topic)
            subscribed = topic is not None and bool(topic.feed is not None or topic.conflated)
            rows.append([subject, topic.seq if topic else 0, snapshot, subscribed])
        return {"subjects": rows, "total": search.total, "snapshots": search.snapshots, "more": search.more}


class _Search:
    """The first ``limit`` subjects behind ``after``, in the order of their characters, and how many match in all."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._pattern = _text(arguments, "pattern")
        self._prefix = _text(arguments, "prefix")
        self._after = _text(arguments, "after")
        self.limit = arguments.get("limit", LIMIT_DEFAULT)
        if type(self.limit) is not int or not 0 < self.limit <= LIMIT_MAX:
            raise InvalidMessage("invalid", f"limit is a number from 1 to {LIMIT_MAX}")
        if self._pattern:
            check_pattern(self._pattern)
        self.total = self.snapshots = 0
        self._behind = 0
        self._found: list[str] = []

    def look(self, some: list[str], topics: dict[str, Topic]) -> None:
        """Look at these subjects."""
        pattern, prefix, after = self._pattern, self._prefix, self._after
        if prefix:
            some = [name for name in some if name.startswith(prefix)]
        if pattern:
            some = [name for name in some if covers(pattern, name)]
        self.total += len(some)
        self.snapshots += sum(_has_snapshot(topics.get(name)) for name in some)
        if after:
            some = [name for name in some if name > after]
        self._behind += len(some)
        self._found = nsmallest(self.limit, self._found + some)

    def page(self) -> list[str]:
        """Return the subjects that were found, in order."""
        return self._found

    @property
    def more(self) -> bool:
        """True if there are others behind the page."""
        return self._behind > len(self._found)


def _has_snapshot(topic: Topic | None) -> bool:
    return topic is not None and topic.snapshot is not None and not topic.snapshot.removed


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name) or ""
    if not isinstance(value, str):
        raise InvalidMessage("invalid", f"{name} is a text")
    return value
