"""Says of a run what was lost, doubled, reordered or kept silent; it does no I/O and names each message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .model import ACKED, MAYBE_STORED, REFUSED, Finding, Publication, Run, Verdict
from .replay import Reading, Replay
from .session_checker import SessionReplay, copies_max

END = "the log at the end"
ACKS = "the acknowledgements"


def check(run: Run) -> Verdict:
    """Everything that is wrong with the run."""
    sent = {one.content: one.sent_ms for one in run.publications.values() if one.sent_ms}
    stored = {
        (one.subject, one.position[1]): one.sent_ms
        for one in run.publications.values()
        if one.sent_ms and one.outcome == ACKED and one.position is not None
    }
    acknowledged = {
        one.content: one.position[1]
        for one in run.publications.values()
        if one.outcome == ACKED and one.position is not None
    }
    again = {one.content for one in run.publications.values() if copies_max(run, one) > 1}
    replays = [
        Replay(trace, run.cache_ms, sent, stored, again, acknowledged) for trace in run.traces if not trace.sessions
    ]
    verdict = Verdict(published=len(run.publications))
    for replay in replays:
        verdict.findings += replay.findings
        verdict.delivered += replay.delivered
        verdict.recovered += replay.recovered
        verdict.resynchronised += replay.resynchronised
        verdict.gaps += replay.gaps
        verdict.resynchronised_in_reach += replay.in_reach
        verdict.disconnected += replay.lost if replay.trace.steady else 0
    verdict.acknowledged = sum(one.outcome == ACKED for one in run.publications.values())
    truth = _Truth(run, replays)
    verdict.findings += truth.findings
    verdict.findings += _unplaced(run, truth)
    for trace in run.traces:
        if trace.sessions:
            _add_sessions(verdict, SessionReplay(run, trace, truth.stored_at(), truth.known, sent))
    verdict.findings += _acknowledged(run, truth)
    for replay in replays:
        verdict.findings += _silent(run, truth, replay)
        verdict.findings += _order(run, truth, replay)
        verdict.findings += [] if run.forgets else _snapshots(truth, replay)
        if not run.forgets:
            verdict.findings += _absent(run, truth, replay)
    verdict.findings += _ending(run, truth)
    return verdict


def _add_sessions(verdict: Verdict, replay: SessionReplay) -> None:
    verdict.findings += [*replay.findings, *replay.absent()]
    verdict.delivered += replay.delivered
    verdict.recovered += replay.recovered
    verdict.resynchronised += replay.resynchronised
    verdict.resynchronised_in_reach += replay.in_reach
    verdict.disconnected += replay.lost if replay.trace.steady else 0


class _Truth:
    """Which message has which number, by all who saw it; ``numbers`` has the first of each, ``all_numbers`` also those
    of what may be stored more than once."""

    def __init__(self, run: Run, replays: list[Replay]) -> None:
        self.numbers: dict[str, int] = {}
        self.all_numbers: dict[str, set[int]] = defaultdict(set)
        self.contents: dict[str, dict[int, str]] = defaultdict(dict)
        self.findings: list[Finding] = []
        self._acknowledged: dict[str, dict[int, str]] = defaultdict(dict)
        self._forgets = run.forgets
        self._run = run
        for one in run.publications.values():
            if one.outcome == ACKED and one.position is not None:
                self._acknowledged[one.subject].setdefault(one.position[1], one.content)
        for subject, log in run.final.items():
            for seq, content in log:
                self._note(END, subject, seq, content)
        for replay in replays:
            for subject, reading in replay.readings.items():
                for content, seq in (*reading.seen.items(), *reading.copies):
                    self._note(replay.trace.name, subject, seq, content)

    def name(self, subject: str, seq: int) -> str:
        """The message at a number: as somebody saw it, or as it was acknowledged."""
        return self.known(subject, seq) or f"number {seq}"

    def known(self, subject: str, seq: int) -> str:
        """The same, empty where nobody knows it."""
        return self.contents[subject].get(seq) or self._acknowledged[subject].get(seq) or ""

    def stored_at(self) -> dict[str, set[int]]:
        """All numbers of each message: as others saw it, or, where nobody else did as all of them had to skip it, as it
        was acknowledged."""
        known = {content: numbers for content, numbers in self.all_numbers.items() if numbers}
        for by_number in self._acknowledged.values():
            for seq, content in by_number.items():
                known.setdefault(content, {seq})
        return known

    def may_be_at(self, content: str, seq: int) -> bool:
        """Whether that is one of the numbers of what may be stored more than once, or can be one that nobody saw."""
        one, numbers = self._run.publications.get(content), self.all_numbers[content]
        return one is not None and len(numbers | {seq}) <= copies_max(self._run, one)

    def _note(self, who: str, subject: str, seq: int, content: str) -> None:
        known = self.numbers.setdefault(content, seq)
        other = self.contents[subject].setdefault(seq, content)
        numbers = self.all_numbers[content]
        numbers.add(seq)
        if self._forgets:
            return
        if known != seq:
            one = self._run.publications.get(content)
            most = copies_max(self._run, one) if one is not None else 1
            if most > 1:
                self.numbers[content] = min(known, seq)
            if len(numbers) > most:
                self.findings.append(Finding("doubled", who, subject, content, f"it is at {known} and at {seq}"))
        elif other != content:
            self.findings.append(Finding("reordered", who, subject, content, f"number {seq} is {other}'s elsewhere"))


def _acknowledged(run: Run, truth: _Truth) -> Iterator[Finding]:
    """The acknowledgements among each other, and with what was delivered."""
    highest: dict[tuple[str, str], Publication] = {}
    for one in sorted(run.publications.values(), key=lambda one: (one.publisher, one.number)):
        seq = truth.numbers.get(one.content)
        if one.outcome == REFUSED and one.code not in MAYBE_STORED and seq is not None:
            yield Finding(
                "refused_but_seen", ACKS, one.subject, one.content, f"refused as {one.code}, and it is at {seq}"
            )
        if len(set(one.positions)) > 1:
            yield Finding("doubled", ACKS, one.subject, one.content, f"acknowledged at {sorted(set(one.positions))}")
        if one.outcome != ACKED or one.position is None or run.forgets:
            continue
        if seq is not None and seq != one.position[1]:
            text = f"acknowledged at {one.position}, and it is at {seq}"
            yield Finding("reordered", ACKS, one.subject, one.content, text)
        before = highest.get((one.publisher, one.subject))
        if before is not None and before.position is not None and before.position[1] >= one.position[1]:
            text = f"at {one.position}, and {before.content}, published before it, at {before.position}"
            yield Finding("reordered", ACKS, one.subject, one.content, text)
        highest[one.publisher, one.subject] = one
    if not run.forgets:
        yield from _chain(run)


def _chain(run: Run) -> Iterator[Finding]:
    """Numbers go on over epochs: where a later epoch has a number again, what was acknowledged there is gone."""
    by_subject: dict[str, list[Publication]] = defaultdict(list)
    for one in run.publications.values():
        if one.outcome == ACKED and one.position is not None:
            by_subject[one.subject].append(one)
    for subject, acknowledged in by_subject.items():
        above: Publication | None = None
        for one in sorted(acknowledged, key=lambda one: one.position or (0, 0), reverse=True):
            assert one.position is not None
            if above is None or above.position is None or one.position[1] < above.position[1]:
                above = one
            elif one.position[1] == above.position[1] and one.position[0] == above.position[0]:
                text = f"acknowledged at {one.position}, and so was {above.content}"
                yield Finding("lost", ACKS, subject, one.content, text)
            else:
                text = f"acknowledged at {one.position}, and {above.content} at {above.position} in its place"
                yield Finding("lost", ACKS, subject, one.content, text)


def _unplaced(run: Run, truth: _Truth) -> Iterator[Finding]:
    """Acknowledged without a number, and nobody saw it: lost for sure where each number that it could have is known to
    be another's, between what its publisher sent to the subject before and after it."""
    orders: dict[tuple[str, str], list[Publication]] = defaultdict(list)
    for one in run.publications.values():
        if one.outcome == ACKED and not run.forgets:
            orders[one.publisher, one.subject].append(one)
    for (_, subject), order in orders.items():
        order.sort(key=lambda one: one.number)
        numbers = [one.position[1] if one.position else truth.numbers.get(one.content) for one in order]
        known = truth.contents[subject]
        above = 0
        for at, (one, number) in enumerate(zip(order, numbers, strict=True)):
            if number is not None:
                above = number
                continue
            end = next((later for later in numbers[at + 1 :] if later is not None), max(known, default=0) + 1)
            if all(seq in known for seq in range(above + 1, end)):
                text = f"acknowledged, and the numbers from {above + 1} to {end - 1} are others'"
                yield Finding("lost", END, subject, one.content, text)


def _silent(run: Run, truth: _Truth, replay: Replay) -> Iterator[Finding]:
    """Numbers that a client did not get between two that it got, without being told."""
    for reading, seq, promised in replay.missing():
        content = truth.name(reading.subject, seq)
        one = run.publications.get(content)
        nobody = content not in truth.numbers
        kind = "lost" if nobody and one is not None else "false_recovery" if promised else "unannounced"
        text = f"number {seq} did not come" + (", and the stretch was called recovered" if promised else "")
        yield Finding(kind, replay.trace.name, reading.subject, content, text)


def _order(run: Run, truth: _Truth, replay: Replay) -> Iterator[Finding]:
    """What one publisher sent to one subject comes in its order."""
    for subject, reading in replay.readings.items():
        newest: dict[str, int] = {}
        for content in reading.seen:
            one = run.publications.get(content)
            if one is None:
                yield Finding("reordered", replay.trace.name, subject, content, "nobody published it")
                continue
            before = newest.get(one.publisher, 0)
            if one.anew or reading.seen[content] != truth.numbers[content]:
                # What a session does not know is another publisher's, and a copy had its place before.
                continue
            if one.number < before:
                text = f"it came after the same publisher's number {before}"
                yield Finding("reordered", replay.trace.name, subject, content, text)
            newest[one.publisher] = max(before, one.number)


def _snapshots(truth: _Truth, replay: Replay) -> Iterator[Finding]:
    """Every message is retained, so a snapshot is the message at its number."""
    for subject, reading in replay.readings.items():
        for _, seq, content in reading.snapshots:
            number = truth.numbers.get(content, seq)
            if number != seq and not truth.may_be_at(content, seq):
                text = f"the snapshot at {seq} is the message at {number}"
                yield Finding("wrong_snapshot", replay.trace.name, subject, content, text)


def _absent(run: Run, truth: _Truth, replay: Replay) -> Iterator[Finding]:
    """Acknowledged messages that a client should have and does not have."""
    for one in run.publications.values():
        reading = replay.readings.get(one.subject)
        if one.outcome != ACKED or reading is None or reading.start is None or one.content in reading.seen:
            continue
        seq = one.position[1] if one.position else truth.numbers.get(one.content)
        why = _why_absent(truth, reading, seq)
        if why:
            yield Finding("lost", replay.trace.name, one.subject, one.content, why)


def _why_absent(truth: _Truth, reading: Reading, seq: int | None) -> str:
    """Empty when the client was told, or when the message is named already."""
    if seq is None:
        return "" if reading.jumps or reading.jumping else "acknowledged, and nobody saw it"
    assert reading.start is not None
    if seq <= reading.start or reading.exempt(seq):
        return ""
    last = reading.last[1] if reading.last else 0
    if seq > last:
        return "" if reading.jumping else f"acknowledged at {seq}, and the client has read up to {last} only"
    if any(above < seq < below for above, below, _ in reading.holes):
        return ""
    return f"acknowledged at {seq}, where {truth.name(reading.subject, seq)} came"


def _ending(run: Run, truth: _Truth) -> Iterator[Finding]:
    """What the server holds at the end, and every snapshot that was sent."""
    acknowledged: dict[str, list[Publication]] = defaultdict(list)
    for one in run.publications.values():
        if one.outcome == ACKED and one.position is not None:
            acknowledged[one.subject].append(one)
    unplaced = [one for one in run.publications.values() if one.outcome == ACKED and one.position is None]
    for subject, log in run.final.items():
        if run.forgets or not log:
            continue
        held = {content for _, content in log}
        first = log[0][0]
        for one in unplaced:
            seq = max(truth.all_numbers[one.content], default=0)
            if one.subject == subject and seq >= first and one.content not in held:
                text = f"it was at {seq}, and the log from {first} on is without it"
                yield Finding("lost", END, subject, one.content, text)
        for one in acknowledged[subject]:
            if one.position and one.position[1] >= first and one.content not in held:
                text = f"acknowledged at {one.position}, and the log from {first} on is without it"
                yield Finding("lost", END, subject, one.content, text)
    for subject, (seq, content) in run.snapshots.items():
        newest = max((one.position[1] for one in acknowledged[subject] if one.position), default=0)
        if truth.name(subject, seq) not in (content, f"number {seq}") or (seq < newest and not run.forgets):
            text = f"the snapshot at {seq}; {truth.name(subject, seq)} is there, {newest} was acknowledged"
            yield Finding("wrong_snapshot", END, subject, content, text)
