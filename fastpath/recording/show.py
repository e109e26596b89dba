"""`show`: what is in a recording: when, how much, of which subjects, and whether anything is missing."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .command_line import instant, positive, say
from .lines import End, Happened, Recorded
from .reading import Reader

SUBJECTS_MAX = 100_000
"""Subjects that are counted one by one; the others are counted together."""

DESCRIPTION = """\
Reads recordings from the first to the last line and says what is in them. The status is 1 when messages are missing, or
a file was cut."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``show``: the files and the form of the output."""
    parser.description = DESCRIPTION
    parser.add_argument("files", nargs="+", metavar="FILE", help="recordings in their order; -: the standard input")
    parser.add_argument("--top", type=positive, default=10, metavar="N", help="subjects that are listed (default 10)")
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Show all files together; 1 where something is missing."""
    found = Found()
    for path in arguments.files:
        found.read(path)
    say(found.summary(arguments.top), arguments.json)
    return int(bool(found.missing or found.cut))


@dataclass
class Found:
    """The figures of the recordings read so far."""

    messages: int = 0
    bytes: int = 0
    missing: int = 0
    first_us: int = 0
    last_us: int = 0
    cut: list[str] = field(default_factory=list)
    server: str = ""
    asked: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    others: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    second: int = 0
    in_second: int = 0
    rate_max: int = 0
    _last: dict[str, int] = field(default_factory=dict)

    def read(self, path: str) -> None:
        """Take in a file; raises RecordingError."""
        reader = Reader(path)
        for line in reader:
            match line:
                case Recorded():
                    assert reader.header is not None
                    self.take(line, conflated=bool(reader.header.conflation))
                case Happened():
                    self.statuses[line.name] += 1
                case End():
                    self.ends[line.why] += 1
        header = reader.header
        assert header is not None
        self.first_us = min(self.first_us or header.at_us, header.at_us)
        self.last_us = max(self.last_us, header.at_us)
        self.server = self.server or header.server
        self.asked += [name for name in header.subjects if name not in self.asked]
        if reader.cut:
            self.cut.append(path)

    def summary(self, top: int) -> dict[str, Any]:
        """Return the whole summary, for people and programs."""
        seconds = (self.last_us - self.first_us) / 1e6
        return {
            "from": instant(self.first_us),
            "until": instant(self.last_us),
            "seconds": round(seconds, 3),
            "server": self.server or "–",
            "asked_for": ", ".join(self.asked),
            "messages": self.messages,
            "messages_per_s": round(self.messages / seconds, 1) if seconds else 0,
            "messages_per_s_max": self.rate_max,
            "bytes": self.bytes,
            "subjects": len(self.counts),
            "missing": self.missing,
            "cut": ", ".join(self.cut) or "no",
            "kinds": dict(self.kinds.most_common()),
            "statuses": dict(self.statuses.most_common()),
            "ended_by": dict(self.ends.most_common()),
            "top_subjects": [
                {"messages": count, "bytes": self.sizes[subject], "subject": subject}
                for subject, count in self.counts.most_common(top)
            ]
            + ([{"messages": self.others, "subject": f"those beyond {SUBJECTS_MAX:,}"}] if self.others else []),
        }

    def take(self, line: Recorded, *, conflated: bool) -> None:
        """Count a message."""
        self.messages += 1
        self.last_us = max(self.last_us, line.at_us)
        self.kinds[line.kind] += 1
        size = _size(line)
        self.bytes += size
        second = line.at_us // 1_000_000
        if second != self.second:
            self.second, self.in_second = second, 0
        self.in_second += 1
        self.rate_max = max(self.rate_max, self.in_second)
        subject = line.subject
        if subject not in self.counts and len(self.counts) >= SUBJECTS_MAX:
            self.others += 1
            return
        self.counts[subject] += 1
        self.sizes[subject] += size
        if line.seq:
            self._number(line, conflated)

    def _number(self, line: Recorded, conflated: bool) -> None:
        """Count what is missing: the numbers of a subject rise by one (protocol.md 5.3), over all its epochs; conflated
        ones rise."""
        last = self._last.get(line.subject, 0)
        following = last + (line.kind != "snapshot")
        if last and line.seq > following and not conflated:
            self.missing += line.seq - following
        self._last[line.subject] = line.seq


def _size(line: Recorded) -> int:
    values = [line.value, *line.fields, *line.values.values()]
    return sum(len(value) if isinstance(value, bytes) else len(value.encode(errors="replace")) for value in values)
