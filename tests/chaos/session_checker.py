"""Says what was wrong with the sessions of one subscriber of MQTT, whose messages say no numbers: these are known by
all others who saw them, or by the acknowledgements (docs/reference/mqtt.md, "Sessions")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from .model import ACKED, CRASH, EXACT, MAYBE, Finding, Got, Joined, Publication, Run, Trace
from .replay import REACH_MARGIN_MS

NumbersOf = Mapping[str, set[int]]
"""All numbers at which a content is stored."""

Name = Callable[[str, int], str]
"""What is stored in a subject at a number; empty where nobody knows."""


class _Session:
    """What a client has of a session: up to which number of each subject, and the last packet id of each content."""

    def __init__(self, *, whole: bool) -> None:
        """``whole``: from before the first message on."""
        self.high: dict[str, int | None] = {}
        self.packet_ids: dict[str, int] = {}
        self.whole = whole
        self.here: dict[str, int] = {}
        """The number of each subject that this connection has brought last."""

    def begin(self) -> None:
        """Another connection."""
        self.here = {}

    def read(self, subject: str) -> int | None:
        """Up to where; None where nothing is known of what came before."""
        return self.high.get(subject, 0 if self.whole else None)


class SessionReplay:
    """All sessions of one client; ``name`` tells what is stored at a number, ``sent`` when that was sent (ms)."""

    def __init__(
        self,
        run: Run,
        trace: Trace,
        numbers: NumbersOf,
        name: Name,
        sent: Mapping[str, int],
    ) -> None:
        self.trace = trace
        self.findings: list[Finding] = []
        self.delivered = self.resynchronised = self.in_reach = self.lost = self.recovered = 0
        self._run = run
        self._numbers = numbers
        self._name = name
        self._sent = sent
        self._sessions: dict[str, _Session] = {}
        self._now: _Session | None = None
        epochs = {one.position[0] for one in run.publications.values() if one.position is not None}
        self._void = len(epochs) > 1
        """What was delivered and not acknowledged may have been void, and have come again: the last time counts."""
        void = self._void_times() if self._void else set()
        placed = self._placed()
        for index, event in enumerate(trace.events):
            if isinstance(event, Joined):
                self._joined(event)
            elif isinstance(event, Got) and not run.forgets and index not in void:
                self._got(event, placed.get(index, 0))
            self.delivered += isinstance(event, Got)
            self.lost += type(event).__name__ == "Lost"

    def _void_times(self) -> set[int]:
        """The places among the events of what came again in the same session, but for the last times: as many as it has
        numbers."""
        times: dict[tuple[str, str], list[int]] = defaultdict(list)
        place = ""
        for index, event in enumerate(self.trace.events):
            if isinstance(event, Joined):
                place = event.place
            elif isinstance(event, Got) and not event.retained:
                times[place, event.content].append(index)
        kept = {content: max(1, len(numbers)) for content, numbers in self._numbers.items()}
        return {index for (_, content), found in times.items() for index in found[: -kept.get(content, 1)]}

    def _placed(self) -> dict[int, int]:
        """The number of each message that is stored more than once, by its place among the events: the last one below
        that of what comes behind it on its connection. Of the last ones of a connection that is not known."""
        placed: dict[int, int] = {}
        behind: dict[str, int] = {}
        for index in range(len(self.trace.events) - 1, -1, -1):
            event = self.trace.events[index]
            if isinstance(event, Joined):
                behind = {}
            elif isinstance(event, Got):
                numbers = self._numbers.get(event.content, set())
                end = behind.get(event.subject, 0)
                if len(numbers) == 1:
                    (behind[event.subject],) = numbers
                elif end and (below := [one for one in numbers if one < end]):
                    behind[event.subject] = placed[index] = max(below)
        return placed

    @staticmethod
    def _newest(session: _Session, event: Got, numbers: list[int]) -> int:
        """The newest number that a message can have which is stored more than once."""
        above = [one for one in numbers if one > session.here.get(event.subject, 0)]
        end = (session.read(event.subject) or 0) + 1
        return next((one for one in reversed(above) if one <= end), (above or numbers)[0])

    def _joined(self, event: Joined) -> None:
        known = self._sessions.get(event.place)
        judged = self._run.sessions != MAYBE
        if known is None and event.present and judged:
            self._found("unannounced", "", "the session", f"it is present at {event.place}, where there was none")
        elif known is not None and not event.present:
            if event.missed:
                self._told(known, event)
            elif judged:
                self._found("lost", "", "the session", f"it is not at {event.place} any more")
            known = None
        elif known is not None:
            self.recovered += 1
        if known is None:
            known = _Session(whole=not self._sessions)
        known.begin()
        self._now = self._sessions[event.place] = known

    def _told(self, session: _Session, event: Joined) -> None:
        """The session is over, and its client knows why: messages that it has not got are not in the log any more."""
        self.resynchronised += 1
        lacked = [
            self._sent[one.content]
            for one in self._run.publications.values()
            if (number := self._number(one)) is not None and number > (session.read(one.subject) or 0)
            if one.content in self._sent and (not self.trace.subjects or one.subject in self.trace.subjects)
        ]
        if self._run.sessions == EXACT:
            self.in_reach += event.at - min(lacked, default=event.at) < self._run.cache_ms - REACH_MARGIN_MS

    def _got(self, event: Got, placed: int) -> None:
        session, numbers = self._now, sorted(self._numbers.get(event.content, ()))
        if session is None:
            return
        high = session.read(event.subject)
        if not numbers:  # void, or nobody else has it
            if event.retained:
                self._snapshot(session, event, high, None)
            return
        number = placed or self._newest(session, event, numbers)
        if event.retained:
            self._snapshot(session, event, high, number)
            return
        if high is not None and number <= high:
            self._again(session, event, number)
        elif high is not None:
            for missing in range(high + 1, number):
                # What nobody else has may be what came here, of which no number is known.
                if content := self._name(event.subject, missing):
                    self._found("unannounced", event.subject, content, f"number {missing} did not come, {number} did")
        session.high[event.subject] = max(number, high or 0)
        session.here[event.subject] = max(number, session.here.get(event.subject, 0))
        session.packet_ids[event.content] = event.packet_id

    def _snapshot(self, session: _Session, event: Got, high: int | None, number: int | None) -> None:
        """The retain flag tells that what came before it is not in the log any more."""
        if high is None:
            session.high[event.subject] = number
        elif number is None or number > high:
            self.resynchronised += 1
            lacked = self._name(event.subject, high + 1)
            since = self._sent.get(lacked, 0)
            # A session that is older than what its client has is told of that: the cache may not reach as far.
            if since and self._run.sessions == EXACT:
                self.in_reach += event.at - since < self._run.cache_ms - REACH_MARGIN_MS
            session.high[event.subject] = number

    def _again(self, session: _Session, event: Got, number: int) -> None:
        here = session.here.get(event.subject, 0)
        if number <= here:
            if not self._void:
                kind = "doubled" if event.content in session.packet_ids else "reordered"
                self._found(kind, event.subject, event.content, f"number {number} came behind {here}")
        elif self._run.sessions == EXACT and not self._void:
            before = session.packet_ids.get(event.content)
            if before is not None and not (event.dup and event.packet_id == before):
                text = f"number {number} came again, not under its packet id {before} as it was: {event}"
                self._found("doubled", event.subject, event.content, text)

    def absent(self) -> Iterator[Finding]:
        """What was acknowledged and stands behind the end of what the session was sent."""
        session = self._now
        for one in self._run.publications.values() if session is not None and not self._run.forgets else ():
            high = session.read(one.subject) if session is not None else None
            number = self._number(one)
            if self.trace.subjects and one.subject not in self.trace.subjects:
                continue
            if one.outcome == ACKED and number is not None and high is not None and number > high:
                text = f"acknowledged at {number}, and the client has up to {high} only"
                yield Finding("lost", self.trace.name, one.subject, one.content, text)

    def _number(self, one: Publication) -> int | None:
        return one.position[1] if one.position else min(self._numbers.get(one.content, ()), default=None)

    def _found(self, kind: str, subject: str, content: str, text: str) -> None:
        self.findings.append(Finding(kind, self.trace.name, subject, content, text))


def copies_max(run: Run, one: Publication) -> int:
    """How often a publication may be stored: once, but for what is sent again where its session is not as it was."""
    return 1 + (one.resent if run.sessions in (CRASH, MAYBE) else one.anew)
