"""A small world without faults, for tests of the checker: a log, clients that come and go, and what they record."""

from __future__ import annotations

import random

from .model import ACKED, RECOVERED, UPDATE, Answered, Connected, Lost, Moved, Publication, Run, Seen, Told, Trace

EPOCH = 1000
SUBJECTS = ("/w/a", "/w/b")


class World:
    """Every method is one step of a history in which all promises are kept."""

    def __init__(self, seed: int, clients: int = 3) -> None:
        self.random = random.Random(seed)
        self.run = Run(cache_ms=5000)
        self.epoch = EPOCH
        self.logs: dict[str, list[tuple[int, int, str]]] = {subject: [] for subject in SUBJECTS}
        self.traces = [Trace(f"c{number}", library=number == 0) for number in range(clients)]
        self.run.traces = self.traces
        self.read: list[dict[str, tuple[int, int]] | None] = [None] * clients
        self.kept: dict[int, dict[str, tuple[int, int]]] = {}
        """How far those had read who are away."""
        self.numbers: dict[str, int] = {"p": 0, "q": 0}
        self.at = 0
        for number in range(clients):
            self.connect(number)

    def publish(self, acknowledged: bool = True) -> None:
        """One message is stored, and sent to who is connected."""
        publisher = self.random.choice(list(self.numbers))
        subject = self.random.choice(SUBJECTS)
        self.numbers[publisher] += 1
        number = self.numbers[publisher]
        log = self.logs[subject]
        position = self.epoch, (log[-1][1] if log else 0) + 1
        one = Publication(f"{publisher}:{number}", publisher, number, subject)
        if acknowledged:
            one.outcome, one.position, one.positions = ACKED, position, [position]
        self.run.publications[one.content] = one
        log.append((*position, one.content))
        for number, read in enumerate(self.read):
            if read is not None:
                self._show(number, subject, *position, UPDATE, one.content)

    def connect(self, number: int) -> None:
        """A client comes, and gets exactly what it missed."""
        self.at += 1
        trace = self.traces[number]
        trace.events.append(Connected(self.at, "here"))
        before = self.kept.pop(number, None)
        self.read[number] = {}
        for subject in SUBJECTS:
            log = self.logs[subject]
            head = (self.epoch, log[-1][1] if log else 0)
            since = before.get(subject) if before else None
            missed = [entry for entry in log if since is not None and entry[1] > since[1]]
            if trace.library:
                trace.events.append(Told(self.at, subject, "recovered" if since else "subscribed"))
            else:
                recovery = "recovered" if since else ""
                trace.events.append(Answered(self.at, subject, *head, recovery, len(missed), since))
            self._reads(number)[subject] = since or head
            for _, seq, content in missed:
                self._show(number, subject, self.epoch, seq, RECOVERED, content)

    def lose(self, number: int) -> None:
        """A client's connection ends."""
        self.at += 1
        if self.read[number] is not None:
            self.kept[number] = self._reads(number)
            self.read[number] = None
            self.traces[number].events.append(Lost(self.at, "gone"))

    def fail_over(self, dropped: int = 1) -> None:
        """A new epoch begins; what was not acknowledged at the end of a log is gone, and everybody is told."""
        for number, read in enumerate(self.read):
            if read is None:
                self.connect(number)
        self.at += 1
        self.epoch += 1
        for subject, log in self.logs.items():
            for _ in range(dropped):
                if log and self.run.publications[log[-1][2]].outcome != ACKED:
                    log.pop()
            head = log[-1][1] if log else 0
            for number, trace in enumerate(self.traces):
                read = self._reads(number)
                if not trace.library:
                    trace.events.append(Moved(self.at, subject, self.epoch, head))
                elif read[subject][1] > head:
                    trace.events.append(Told(self.at, subject, "resynchronised"))
                read[subject] = self.epoch, min(head, read[subject][1])

    def _reads(self, number: int) -> dict[str, tuple[int, int]]:
        read = self.read[number]
        assert read is not None
        return read

    def _show(self, number: int, subject: str, epoch: int, seq: int, kind: str, content: str) -> None:
        self.at += 1
        self.traces[number].events.append(Seen(self.at, subject, epoch, seq, kind, content))
        self._reads(number)[subject] = epoch, seq

    def end(self) -> Run:
        """Everybody comes back, and the log is read."""
        for number, read in enumerate(self.read):
            if read is None:
                self.connect(number)
        for subject, log in self.logs.items():
            self.run.final[subject] = [(seq, content) for _, seq, content in log]
            if log:
                self.run.snapshots[subject] = log[-1][1], log[-1][2]
        return self.run
