"""``GET /api/history``: what is kept of subjects, for who may subscribe to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.auth.rules import SUBSCRIBE
from ...core.cache.pages import Page, PageRoom, behind, newest
from ...core.cache.snapshot import Snapshot
from ...core.delivery.audience import Topic
from ...core.events.request import EVENTS_PATH, EVENTS_TYPE
from ...core.protocol.errors import InvalidMessage, InvalidSubject
from ...core.protocol.messages import Message
from ...core.protocol.openapi import SCHEMA_PATH, SCHEMA_TYPE, openapi_json
from ...core.protocol.rest import (
    HISTORICAL,
    PAGE_BYTES_MAX,
    PAGE_MESSAGES,
    PAGE_MESSAGES_MAX,
    RECOVERED,
    SNAPSHOT,
    SUBJECTS_MAX,
    WAIT_SECONDS_MAX,
    read_count,
    read_position,
    shown,
)
from ...core.protocol.subject import check_subject, check_wanted, is_wildcard
from ..runtime.component import Offers
from ..runtime.runtime import Runtime, now
from .answers import HttpAnswer, head_of
from .call import Call, code_of
from .pattern_pages import CoveredSubjects

WAITING_MAX = 1000
"""Calls that may wait for news in one process: each is looked at ten times a second."""

HOOK_SUBJECTS_MAX = 10
"""Subjects of one request for history that a hook is asked about, one after the other."""

Place = tuple[int, int]
NOWHERE: Place = (0, 0)
"""Place before the first message of any subject."""


def _head_of_events(call: Call) -> None:
    """Answer a HEAD: a GET is a stream, and never comes here (edge/clients/connection.py)."""
    call.answer(head_of(200, EVENTS_TYPE))


def _schema(call: Call) -> None:
    """Answer the document that describes all this; for everybody."""
    call.check_parameters()
    call.answer(HttpAnswer(200, openapi_json(), SCHEMA_TYPE))


class HttpReading:
    """The reads of callers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._covered = CoveredSubjects(runtime)
        self._waiting: dict[_Reading, int] = {}
        """Times until which the readings wait (ms)."""
        self.offers = Offers(
            endpoints={
                "/api/history": {"GET": self._history},
                EVENTS_PATH: {"GET": _head_of_events},
                SCHEMA_PATH: {"GET": _schema},
            },
            figures=self._figures,
            on_grid=self._on_grid,
        )

    def _figures(self) -> dict[str, float]:
        http = self._runtime.http
        return {"http_connections": len(http.exchanges), "http_requests": http.requests}

    # History

    def _history(self, call: Call) -> None:
        reading = _Reading(call)
        if self._runtime.asks is not None and (reading.pattern or len(reading.wanted) > HOOK_SUBJECTS_MAX):
            raise InvalidMessage(
                "limit", f"at most {HOOK_SUBJECTS_MAX} subjects, and no pattern: a hook is asked for each"
            )
        if not reading.pattern:
            self._read(reading, 0)
            return

        def found(subjects: list[str], more: bool) -> None:
            reading.expand(subjects, more)
            call.run(self._read, reading, 0)

        named = {one.subject for one in reading.wanted}
        most = SUBJECTS_MAX + 1 - len(named)
        self._covered.find(call, reading.pattern, reading.after, named, most, found)

    def _read(self, reading: _Reading, at: int) -> None:
        """Read one subject after the other, each as soon as it is known whether it may be read."""
        if reading.call.is_over:
            return
        if at == len(reading.wanted):
            self._tell(reading)
            return
        wanted = reading.wanted[at]

        def decided(reason: str) -> None:
            if reason and reading.is_single:
                raise InvalidMessage(code_of(reason), reason)
            if not reason:
                self._read_one(reading, wanted)
            elif not wanted.covered:  # what a pattern covers, and may not be read, is not told of
                told = {"subject": wanted.subject, "status": code_of(reason), "reason": reason}
                reading.results.append(told)
            self._read(reading, at + 1)

        if wanted.covered and reading.is_full:
            self._read(reading, at + 1)
        else:
            reading.call.decide(SUBSCRIBE, wanted.subject, decided)

    def _read_one(self, reading: _Reading, wanted: _Wanted) -> None:
        broker, form = self._runtime.broker, reading.call.form
        subject, since = wanted.subject, wanted.since
        if since is not None and broker.ahead(subject, *since):
            raise InvalidMessage("not_ready", f"what is behind {since[0]},{since[1]} has not arrived here yet; retry")
        topic = broker.interest.topics.get(subject)
        told: dict[str, Any] = {"subject": subject, "status": "ok"}
        if topic is None:
            told |= {"epoch": broker.engine.epoch, "seq": 0, "messages": [], "more": False}
            if since is not None:
                told["recovery"] = "resynchronised" if since[1] else RECOVERED
            reading.note(told, news=since is not None and since[1] > 0)
            return
        if since is not None and wanted.covered:
            since = (topic.epoch, 0)  # from its first message on
        page = self._page(reading, topic, since)
        kind = HISTORICAL if since is None else RECOVERED
        if page is None:  # the cache does not reach back to there
            # Who has read a subject that was removed since is told so, as there is no snapshot.
            message, kind = merged(topic, broker.state(topic)), SNAPSHOT
            page = Page([] if message is None else [message], False)
            if message is not None and not reading.room.take(message):
                page, kind = Page([], True), RECOVERED  # others had the room: it is told when the caller goes on
        if since is not None:
            told["recovery"] = RECOVERED if kind == RECOVERED else "resynchronised"
        last = page.messages[-1] if page.more and since is not None and page.messages else None
        told["epoch"], told["seq"] = (topic.epoch, topic.seq) if last is None else (last.epoch, last.seq)
        if page.more and since is not None and not page.messages:  # others had the room
            told["epoch"], told["seq"] = since
        told["messages"] = [shown(message, kind, form) for message in page.messages]
        told["more"] = page.more
        if wanted.covered and page.more and not page.messages:
            reading.is_full = True  # others had the room: it comes with the next page
            return
        counters = broker.counters
        counters.cache_hits += kind != SNAPSHOT
        counters.cache_misses += kind == SNAPSHOT
        reading.note(told, news=bool(page.messages) or page.more or kind == SNAPSHOT)

    def _page(self, reading: _Reading, topic: Topic, since: Place | None) -> Page | None:
        if since is None:
            return newest(topic, reading.limit, reading.room)
        broker = self._runtime.broker
        if since == (topic.epoch, topic.seq):
            return Page([], False)
        return behind(broker.history, topic, *since, reading.limit, reading.room) if broker.guaranteed else None

    # Waiting

    def _tell(self, reading: _Reading) -> None:
        """Answer, or hold the answer back while there is no news."""
        if reading.wait_seconds and not reading.news:
            if len(self._waiting) >= WAITING_MAX:
                raise InvalidMessage("not_ready", f"{WAITING_MAX} calls wait for news already; ask without wait")
            self._waiting[reading] = now() + reading.wait_seconds * 1000
        else:
            reading.call.answer_with(reading.answer())

    def _on_grid(self, moment: int) -> None:
        """Answer ten times a second who waits for something that has come, or has waited long enough."""
        if not self._waiting:
            return
        topics = self._runtime.broker.interest.topics
        for reading in [one for one, until in self._waiting.items() if until <= moment or one.has_news(topics)]:
            del self._waiting[reading]
            if not reading.call.is_over:
                reading.again()
                reading.call.run(self._read, reading, 0)
        for reading in [one for one in self._waiting if one.call.is_over]:
            del self._waiting[reading]


def merged(topic: Topic, snapshot: Snapshot | None) -> Message | None:
    """Return the snapshot as a message, at the place of its subject."""
    if snapshot is None:
        return None
    message = snapshot.as_message(topic.subject, topic.epoch, topic.seq)
    message.weigh()
    return message


class _Wanted(NamedTuple):
    """A subject that is to be read, behind a position; ``covered``: by a pattern, which says so for all of them."""

    subject: str
    since: Place | None
    covered: bool = False


class _Reading:
    """One request for history, and its answer as far as it has come."""

    def __init__(self, call: Call) -> None:
        call.check_parameters("subject", "since", "after", "limit", "wait")
        self.call = call
        subjects = call.parameters("subject")
        since: list[Place] = [read_position(text) for text in call.parameters("since")]
        if not 0 < len(subjects) <= SUBJECTS_MAX or len(set(subjects)) < len(subjects):
            raise InvalidMessage("invalid", f"subject stands in the query 1 to {SUBJECTS_MAX} times, each another one")
        for subject in subjects:
            check_syntax(subject, check_wanted)
        if since and len(since) != len(subjects):
            raise InvalidMessage("invalid", "since stands in the query as often as subject, in the same order")
        places: list[Place] | list[None] = since or [None] * len(subjects)
        self.wanted = [_Wanted(subject, place) for subject, place in zip(subjects, places, strict=True)]
        self.is_single = len(subjects) == 1 and not is_wildcard(subjects[0])
        self._read_patterns()
        limit, wait = call.parameter("limit"), call.parameter("wait")
        self.limit = PAGE_MESSAGES if limit is None else read_count("limit", limit, 1, PAGE_MESSAGES_MAX)
        self.wait_seconds = 0 if wait is None else read_count("wait", wait, 0, WAIT_SECONDS_MAX)
        if self.wait_seconds and (self.pattern or not since):
            raise InvalidMessage("invalid", "wait needs since, and no pattern: what is newer than what you have")
        self._begin()

    def _read_patterns(self) -> None:
        patterns = [one for one in self.wanted if is_wildcard(one.subject)]
        after = self.call.parameter("after")
        if len(patterns) > 1 or (after is not None and not patterns):
            raise InvalidMessage("invalid", "one pattern may stand among the subjects, and after goes with it")
        if any(one.since not in (None, NOWHERE) for one in patterns):
            raise InvalidMessage("invalid", "since of a pattern is 0,0: all that is cached of what you do not name")
        self.pattern = patterns[0].subject if patterns else ""
        self.after = after or ""
        self.more = False

    def expand(self, subjects: list[str], more: bool) -> None:
        """Put these in the place of the pattern that covers them; ``more``: there are others behind them."""
        at = next(at for at, one in enumerate(self.wanted) if one.subject == self.pattern)
        since = self.wanted[at].since
        self.wanted[at : at + 1] = [_Wanted(subject, since, covered=True) for subject in subjects]
        self.more = more
        self._last = subjects[-1] if subjects else self.after

    def answer(self) -> dict[str, Any]:
        """Return the answer as it is told."""
        told: dict[str, Any] = {"subjects": self.results}
        if self.is_full or self.more:
            covered = {one.subject for one in self.wanted if one.covered}
            names = [result["subject"] for result in self.results if result["subject"] in covered]
            told["next"] = (names[-1] if names else self.after) if self.is_full else self._last
        return told

    def _begin(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.news = self.is_full = False
        self.room = PageRoom(PAGE_MESSAGES_MAX, PAGE_BYTES_MAX)

    def again(self) -> None:
        """Read anew, and wait no more: there is news, or the time is over."""
        self.wait_seconds = 0
        self._begin()

    def note(self, told: dict[str, Any], *, news: bool) -> None:
        """Note the answer for one subject."""
        self.results.append(told)
        self.news = self.news or news

    def has_news(self, topics: dict[str, Topic]) -> bool:
        """Return whether a subject that the caller may read stands elsewhere than where the caller is."""
        for (subject, place, _), told in zip(self.wanted, self.results, strict=True):
            topic = topics.get(subject)
            if told["status"] == "ok" and topic is not None and (topic.epoch, topic.seq) != place and topic.seq:
                return True
        return False


def check_syntax(text: str, check: Callable[[str], None] = check_subject) -> None:
    """Raise InvalidMessage for what is no subject, or what else it is checked for."""
    try:
        check(text)
    except InvalidSubject as error:
        raise InvalidMessage("invalid", error.reason) from None
