"""One client's events, read again in order: what it has, what it was told that it lacks, and what came wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from .model import (
    HISTORICAL,
    RECOVERED,
    SNAPSHOT,
    Answered,
    Finding,
    Lost,
    Moved,
    Noticed,
    Position,
    Seen,
    Told,
    Trace,
)

REACH_MARGIN_MS = 1000
"""A position within a second of the cache's end may go either way."""


class Reading:
    """What one client has of one subject.

    Numbers rise by one over epochs, so a message is known by its number; what a new epoch began below is void.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.seen: dict[str, int] = {}
        """Number by content, in the order of arrival."""
        self.copies: list[tuple[str, int]] = []
        """Further numbers of what may be stored again."""
        self.start: int | None = None
        self.last: Position | None = None
        self.at = 0
        self.jumps: list[tuple[int, int]] = []
        """Told: what is above the first number, up to the second one, did not come."""
        self.holes: list[tuple[int, int, bool]] = []
        """Not told: what is between the numbers did not come; and whether that was called a recovery."""
        self.snapshots: list[tuple[int, int, str]] = []
        self.jumping = False
        self.promised = 0
        """The number up to which the last answer said that nothing is missing."""

    def exempt(self, seq: int) -> bool:
        """Whether the client was told that it does not get this number."""
        return any(above < seq <= end for above, end in self.jumps)

    def doubt(self, epoch: int, acknowledged: Mapping[str, int]) -> None:
        """The client is told that it begins anew in this epoch: the last ones that it read before may have been made
        void by it, unless they were acknowledged under their number."""
        if self.last is None or epoch <= self.last[0]:
            return
        for content, number in sorted(self.seen.items(), key=lambda one: -one[1]):
            if acknowledged.get(content) == number:
                break
            del self.seen[content]
            self.last = self.last[0], number - 1

    def jump(self, position: Position) -> None:
        """The client was told that it stands there now."""
        self.jumping = False
        seq = position[1]
        if self.start is None:
            self.start = 0
        last = self.last[1] if self.last else 0
        if seq > last:
            self.jumps.append((last, seq))
        elif seq < last:
            self.seen = {content: number for content, number in self.seen.items() if number <= seq}
            self.copies = [(content, number) for content, number in self.copies if number <= seq]
            self.jumps = [(above, min(end, seq)) for above, end in self.jumps if above < seq]
        self.last = position
        self.promised = 0

    def message(self, event: Seen, acknowledged: Mapping[str, int], again: bool = False) -> Finding | None:
        """A message that is none of the snapshot; answers what is wrong with it by itself.

        ``acknowledged``: under which number each content was. ``again``: it may be stored at more than one number.
        """
        if self.jumping:
            self.doubt(event.epoch, acknowledged)
            self.jump((event.epoch, event.seq - 1))
        if self.last is None:
            self.start, self.last = 0, (event.epoch, 0)
        last, seq, content = self.last, event.seq, event.content
        fault = None
        copy = again and self.seen.get(content, seq) != seq and (content, seq) not in self.copies
        if content in self.seen and not copy:
            fault = "doubled", f"came at {self.seen[content]} and again at {seq}"
        elif (event.epoch, seq) <= last:
            fault = "reordered", f"({event.epoch}, {seq}) came after {last}"
        elif seq <= last[1]:
            fault = "unannounced", f"the new epoch {event.epoch} begins at {seq}, below {last[1]}, and nothing told so"
            self.jump((event.epoch, seq - 1))
        elif seq > last[1] + 1:
            self.holes.append((last[1], seq, event.kind == RECOVERED or last[1] < self.promised))
        if copy:
            self.copies.append((content, seq))
        elif fault is None or fault[0] == "unannounced":
            self.seen[content] = seq
        if (event.epoch, seq) > last:
            self.last = event.epoch, seq
        self.at = event.at
        return Finding(fault[0], "", self.subject, content, fault[1]) if fault else None


class Replay:
    """All subjects of one client."""

    def __init__(
        self,
        trace: Trace,
        cache_ms: int,
        sent: Mapping[str, int],
        stored: Mapping[tuple[str, int], int],
        again: Collection[str] = (),
        acknowledged: Mapping[str, int] | None = None,
    ) -> None:
        """``sent``: when each content was sent, in ms. A client that reads late stands at an old message.

        ``stored``: by subject and number when that message was sent, of those that were acknowledged there. ``again``:
        contents that may be stored more than once; ``acknowledged``: under which number each content was.
        """
        self.trace = trace
        self._sent = sent
        self._stored = stored
        self._again = again
        self._acknowledged = acknowledged or {}
        self.readings: dict[str, Reading] = {}
        self.findings: list[Finding] = []
        self.delivered = self.recovered = self.resynchronised = self.in_reach = self.lost = self.gaps = 0
        self._cache_ms = cache_ms
        for event in trace.events:
            self._take(event)

    def missing(self) -> Iterator[tuple[Reading, int, bool]]:
        """Every number that did not come though nothing was told, and whether it was called a recovery."""
        for reading in self.readings.values():
            for above, below, promised in reading.holes:
                for seq in range(above + 1, below):
                    yield reading, seq, promised

    def _take(self, event: object) -> None:
        match event:
            case Seen():
                self._seen(event)
            case Answered():
                self._answered(event)
            case Moved():
                self._moved(event)
            case Told():
                self._told(event)
            case Lost():
                self.lost += 1
            case Noticed(what="gap"):
                self.gaps += 1

    def _of(self, subject: str) -> Reading:
        reading = self.readings.get(subject)
        if reading is None:
            reading = self.readings[subject] = Reading(subject)
        return reading

    def _seen(self, event: Seen) -> None:
        if not event.seq:
            return
        reading = self._of(event.subject)
        if event.kind == SNAPSHOT:
            reading.snapshots.append((event.epoch, event.seq, event.content))
            if reading.jumping:
                reading.doubt(event.epoch, self._acknowledged)
                reading.jump((event.epoch, event.seq))
            return
        if event.kind == HISTORICAL:
            return
        self.delivered += 1
        finding = reading.message(event, self._acknowledged, event.content in self._again)
        reading.at = min(event.at, self._sent.get(event.content, event.at))
        if finding is not None:
            self._found(finding.kind, event.subject, event.content, finding.text)

    def _answered(self, event: Answered) -> None:
        reading = self._of(event.subject)
        head = event.epoch, event.seq
        if reading.last is None:
            reading.start, reading.last = event.seq, head
        elif event.recovery == "recovered":
            self.recovered += 1
            reading.promised = event.seq
            reading.last = max(event.epoch, reading.last[0]), reading.last[1]
            if event.seq < reading.last[1]:
                text = f"recovered up to {event.seq}, and the client had read up to {reading.last[1]}"
                self._found("false_recovery", event.subject, f"number {event.seq}", text)
        else:
            if event.recovery != "resynchronised":
                text = f"answered {event.recovery or 'nothing'} to a position"
                self._found("unannounced", event.subject, f"number {event.seq}", text)
            self._resynchronised(reading, event.at)
            if event.recovery == "resynchronised":
                reading.doubt(event.epoch, self._acknowledged)
            reading.jump(head)
        reading.at = event.at

    def _moved(self, event: Moved) -> None:
        reading = self._of(event.subject)
        if reading.last is None:
            return
        if reading.last[1] > event.seq:
            self._resynchronised(reading, event.at)
            reading.jump((event.epoch, event.seq))
        else:
            reading.last = event.epoch, reading.last[1]

    def _told(self, event: Told) -> None:
        reading = self._of(event.subject)
        if event.name == "recovered":
            self.recovered += 1
        elif event.name == "resynchronised" and not reading.jumping:
            self._resynchronised(reading, event.at)
            reading.jumping = True
        elif event.name == "gap":
            self.gaps += 1

    def _resynchronised(self, reading: Reading, at: int) -> None:
        """The cache reaches while it holds the first message that the client lacks, whatever it was told meanwhile."""
        self.resynchronised += 1
        lacked = (reading.subject, reading.last[1] + 1) if reading.last else None
        since = self._stored.get(lacked, reading.at) if lacked else reading.at
        if self._cache_ms and since and at - since < self._cache_ms - REACH_MARGIN_MS:
            self.in_reach += 1

    def _found(self, kind: str, subject: str, content: str, text: str) -> None:
        self.findings.append(Finding(kind, self.trace.name, subject, content, text))
