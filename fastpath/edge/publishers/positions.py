"""The frame `positions`: how far subjects have come, all at first and then those that went on (protocol.md 6.13)."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from ...core.auth.reasons import PENDING
from ...core.auth.rules import SUBSCRIBE
from ...core.cache.cache_range import before, chain
from ...core.delivery.audience import Topic
from ...core.matching.subscribed_patterns import covers
from ...core.protocol.errors import Close, InvalidSubject, Refused
from ...core.protocol.subject import check_pattern, check_subject, is_wildcard
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .connection import PublisherConnection
from .slices import Slices, Slicing

PATTERNS_MAX = 100
"""Patterns and subjects in one question."""

WATCHES_MAX = 8
"""Questions of one connection whose answers are remembered; one more takes the place of the oldest."""

FOLLOWED_MAX = 2000
"""Patterns that are remembered of all connections: each subject that comes to be is compared with them."""

WATCHED_MAX = 2_000_000
"""Subjects that are remembered of all of them: 32 bytes each."""

NEW_MAX = 100_000
"""Subjects that have come to be and are remembered for who follows patterns; who has not looked at them when they are
more looks for its subjects anew."""

WAIT_MS_MAX = 5000
"""Milliseconds for which an answer may be held back when there is no news."""

LOOK_SECONDS = 0.01
"""Seconds between two looks at whether anything has come, while somebody waits."""

LOOK_SHARE = 5
"""A look at many subjects is followed by a pause so many times as long."""

LOOK_ANYWAY_SECONDS = 5
"""Seconds after which subjects are looked at though no message has come: Redis may have set some back."""

PENDING_SECONDS = 0.1
"""Seconds after which subjects are looked at again about which a hook was still being asked."""

ROWS = 2000
"""Subjects in one frame of an answer."""

SLICE_SUBJECTS = 2000
"""Subjects looked at between two looks at the clock."""

SLICE_RIGHTS = 100
"""Subjects whose right has to be found out between two looks at the clock."""

SLICE_COVERS = 200
"""Comparisons of a new subject with a pattern between two looks at the clock."""

SLICE_PLACES = 500
"""The same of places of the tree."""

UNKNOWN, MAY, MAY_NOT = range(3)


class PositionWatch:
    """The positions that one connection was told of the subjects its patterns cover, and whether it may read them."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self.topics: list[Topic] = []
        self.epochs = array("q")
        self.seqs = array("q")  # as it was told; -1: nothing yet
        self.rights = bytearray()  # UNKNOWN, MAY or MAY_NOT
        self.found: set[Topic] | None = set()  # while those are looked for that are there already
        self.seen = 0  # of the subjects that came to be, those that its patterns were compared with
        self.version = -1  # of the rights under which it was told
        self.looked = -1  # how many messages had come in when it was looked at last
        self.looked_at = self.rest_until = 0.0
        self.busy = False  # an answer is being made

    def add(self, topic: Topic) -> None:
        """Add a subject that is covered."""
        if self.found is not None:
            if topic in self.found:
                return
            self.found.add(topic)
        self.topics.append(topic)
        self.epochs.append(-1)
        self.seqs.append(-1)
        self.rights.append(UNKNOWN)

    def covers(self, subject: str) -> bool:
        """Return whether one of the patterns covers the subject, or names it."""
        return any(text == subject if not is_wildcard(text) else covers(text, subject) for text in self.patterns)


class Positions:
    """Answers the frame in the process that publishers connect to."""

    def __init__(self, runtime: Runtime, slicing: Slicing) -> None:
        self._runtime = runtime
        self._slicing = slicing
        self._watches: WeakKeyDictionary[PublisherConnection, dict[tuple[str, ...], PositionWatch]] = (
            WeakKeyDictionary()
        )
        self._new: list[Topic] = []  # what came to be while somebody followed
        self._new_before = 0  # how many came before these
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None
        self.offers = Offers(frames={"positions": self._ask}, appeared=self._appeared)

    def _ask(self, connection: PublisherConnection, number: int, rest: list[Any]) -> None:
        """Answer ``["positions", n, patterns, options]``; a frame of another shape ends the connection: raise
        Refused."""
        match rest:
            case [list(patterns), dict(options)] if patterns and all(isinstance(text, str) for text in patterns):
                pass
            case _:
                raise Refused(Close.BAD_MESSAGE, 'positions is ["positions", n, patterns, options]')
        wait, time = options.get("wait_ms", 0), options.get("time")
        if type(wait) is not int or not 0 <= wait <= WAIT_MS_MAX or not (time is None or type(time) is int):
            raise Refused(Close.BAD_MESSAGE, f"wait_ms is a number up to {WAIT_MS_MAX}, time one of milliseconds")
        self._slicing.begin(connection)
        refusal = self._refusal(connection, patterns)
        if refusal is not None:
            self._slicing.end(connection, ["failed", number, *refusal])
            return
        watch = self._watch(connection, tuple(patterns), news=options.get("news") is True)
        waiting = _Waiting(connection, number, watch, time, self._runtime.loop.time() + wait / 1000)
        if self._is_due(waiting):
            watch.busy = True
            self._slicing.run(connection, self._answer(waiting))
        else:
            self._wait(waiting)

    def _refusal(self, connection: PublisherConnection, patterns: list[str]) -> tuple[str, str] | None:
        """Return why the patterns are not answered.

        A pattern covers what may be read, a subject that is named must be one.
        """
        moment = now()
        principal = connection.current(moment)
        grants = self._runtime.broker.grants
        if len(patterns) > PATTERNS_MAX:
            return "limit", f"over {PATTERNS_MAX} patterns"
        if not grants.ready:
            return "not_ready", PENDING[0]
        if self._is_full(connection, tuple(patterns)):
            return "limit", "those who read follow too many patterns or subjects; ask again later"
        for text in patterns:
            try:
                if is_wildcard(text):
                    check_pattern(text, names=False)
                    continue
                check_subject(text)
            except InvalidSubject as error:
                return "invalid", f"{text[:64]}: {error.reason}"
            reason = grants.check(principal, SUBSCRIBE, text, moment)
            if reason:
                return ("not_ready" if reason in PENDING else "denied"), f"{text}: {reason}"
        return None

    def _is_full(self, connection: PublisherConnection, patterns: tuple[str, ...]) -> bool:
        """Return whether what is followed besides leaves no room for these patterns."""
        for other in [one for one in self._watches if one.over]:
            del self._watches[other]
        followed = [
            watch
            for one, watches in self._watches.items()
            for texts, watch in watches.items()
            if one is not connection or texts != patterns
        ]
        return (
            sum(len(watch.patterns) for watch in followed) + len(patterns) > FOLLOWED_MAX
            or sum(len(watch.topics) for watch in followed) > WATCHED_MAX
        )

    def _watch(self, connection: PublisherConnection, patterns: tuple[str, ...], news: bool) -> PositionWatch:
        watches = self._watches.setdefault(connection, {})
        watch = watches.pop(patterns, None)
        if watch is None or not news:
            watch = PositionWatch(patterns)
            watch.seen = self._appeared_all
            while len(watches) >= WATCHES_MAX:
                del watches[next(iter(watches))]
        watches[patterns] = watch
        return watch

    def _appeared(self, topic: Topic) -> None:
        """Note a new subject: who follows patterns compares them when it looks, so that whoever publishes does not
        wait."""
        if not self._watches:
            return
        if len(self._new) >= NEW_MAX:
            self._new_before += len(self._new)
            self._new.clear()
        self._new.append(topic)

    @property
    def _appeared_all(self) -> int:
        return self._new_before + len(self._new)

    # Waiting for news

    def _wait(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        if self._timer is None:
            self._timer = self._runtime.loop.call_later(LOOK_SECONDS, self._look)

    def _is_due(self, waiting: _Waiting) -> bool:
        """Return whether the watch's subjects are to be looked at, or its time is over."""
        moment, watch = self._runtime.loop.time(), waiting.watch
        if watch.busy:
            return waiting.connection.over
        if moment >= waiting.until or waiting.connection.over:
            return True
        return moment >= watch.rest_until and self._has_news(watch, moment)

    def _has_news(self, watch: PositionWatch, moment: float) -> bool:
        """Return whether anything may have changed for the watch since it was looked at."""
        return (
            watch.found is not None
            or watch.seen != self._appeared_all
            or watch.looked != self._runtime.broker.counters.messages_in
            or watch.version != self._runtime.broker.grants.version
            or moment >= watch.looked_at + LOOK_ANYWAY_SECONDS
        )

    def _look(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._is_due(one):
                one.watch.busy = True
                self._slicing.run(one.connection, self._answer(one))
            else:
                self._wait(one)

    # Looking

    def _answer(self, waiting: _Waiting) -> Slices:
        """Tell the subjects that went on, frame by frame; where there are none, again later."""
        connection, number, watch = waiting.connection, waiting.number, waiting.watch
        told, loop = 0, self._runtime.loop
        began = loop.time()
        if self._has_news(watch, began):
            watch.looked, watch.looked_at = self._runtime.broker.counters.messages_in, began
            yield from self._find(watch)
            for rows in self._news(connection, watch, waiting.time):
                if rows:
                    connection.reply(["position", number, rows])
                    told += len(rows)
                yield
            if len(watch.topics) > SLICE_SUBJECTS:
                watch.rest_until = loop.time() + LOOK_SHARE * (loop.time() - began)
        watch.busy = False
        if told or loop.time() >= waiting.until:
            self._slicing.end(connection, ["positions", number, told])
        else:
            self._wait(waiting)

    def _find(self, watch: PositionWatch) -> Slices:
        """Find the subjects that are there already, when the watch looks for the first time, and then those that came
        to be."""
        if watch.seen < self._new_before:
            watch.seen, watch.found = self._appeared_all, set(watch.topics)
        if watch.found is not None:
            yield from self._find_all(watch)
        compared = 0
        while watch.seen < self._appeared_all:
            if watch.seen < self._new_before:
                return  # they came faster; the next look looks for all
            topic = self._new[watch.seen - self._new_before]
            if watch.covers(topic.subject):
                watch.add(topic)
            watch.seen += 1
            compared += len(watch.patterns)
            if compared >= SLICE_COVERS:
                compared = 0
                yield
        watch.found = None

    def _find_all(self, watch: PositionWatch) -> Slices:
        interest = self._runtime.broker.interest
        for text in watch.patterns:
            if not is_wildcard(text):
                topic = interest.topics.get(text)
                if topic is not None and topic.known:
                    watch.add(topic)
                continue
            for places, one in enumerate(interest.tree.find(text)):
                if one is not None:
                    watch.add(one)
                if places % SLICE_PLACES == 0:
                    yield

    def _news(self, connection: PublisherConnection, watch: PositionWatch, time: int | None) -> Iterator[list[Any]]:
        """Yield rows ``[subject, epoch, seq, first cached]``, of those told for the first time also where they stood
        then; empty ones where it may be interrupted."""
        version = self._runtime.broker.grants.version
        if watch.version != version or self._runtime.asks is not None:  # an answer of the hook may end at any time
            watch.version, watch.rights = version, bytearray(len(watch.topics))
        epochs, seqs, rights = watch.epochs, watch.seqs, watch.rights
        rows: list[Any] = []
        checks = 0
        for start in range(0, len(watch.topics), SLICE_SUBJECTS):
            moment = now()
            principal = connection.current(moment)
            for at, topic in enumerate(watch.topics[start : start + SLICE_SUBJECTS], start):
                seq = topic.seq
                if (seq == seqs[at] and topic.epoch == epochs[at]) or not seq or rights[at] == MAY_NOT:
                    continue
                if rights[at] == UNKNOWN:
                    checks += 1
                    if checks % SLICE_RIGHTS == 0:
                        yield []
                    reason = self._runtime.broker.grants.check(principal, SUBSCRIBE, topic.subject, moment)
                    if reason in PENDING:
                        watch.looked, watch.rest_until = -1, self._runtime.loop.time() + PENDING_SECONDS
                    else:
                        rights[at] = MAY_NOT if reason else MAY
                    if reason:
                        continue
                ring = chain(topic)
                row = [topic.subject, topic.epoch, seq, ring[0].seq if ring else seq + 1]
                if time is not None and seqs[at] < 0:
                    row.append(before(topic, time))
                rows.append(row)
                epochs[at], seqs[at] = topic.epoch, seq
                if len(rows) >= ROWS:
                    yield rows
                    rows = []
            yield []
        yield rows


class _Waiting:
    """A question that has no answer yet; ``until`` is when it gets one in any case, by the loop's clock."""

    __slots__ = ("connection", "number", "time", "until", "watch")

    def __init__(
        self, connection: PublisherConnection, number: int, watch: PositionWatch, time: int | None, until: float
    ) -> None:
        self.connection = connection
        self.number = number
        self.watch = watch
        self.time = time
        self.until = until
