"""What has to hold of what was stored: each row once, each subject's batches in order, no number left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

EXAMPLES = 5


@dataclass
class Verdict:
    """Counts of faults; ``rows`` is how many were looked at."""

    rows: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    holes: int = 0
    differing: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether there are none."""
        return not (self.lost or self.doubled or self.reordered or self.holes or self.differing)

    def note(self, text: str) -> None:
        """Keep the first few."""
        if len(self.examples) < EXAMPLES:
            self.examples.append(text)


def check_rows(
    stored: Mapping[str, Sequence[tuple[int, int]]], batches: int, batch_rows: int, subjects: int
) -> Verdict:
    """``stored`` has each subject's sequence numbers and row numbers, in order.

    Row n belongs to batch n // batch_rows and to the subject that ends with n % subjects; the first ``batches`` batches
    must be there, whole, and whatever there is of later ones must be there once.
    """
    verdict = Verdict()
    times: dict[int, int] = {}
    for subject, messages in stored.items():
        before = -1
        for place, (seq, row) in enumerate(messages, 1):
            verdict.rows += 1
            times[row] = times.get(row, 0) + 1
            if seq != place:
                verdict.holes += 1
                verdict.note(f"{subject}: message {place} has number {seq}")
            if int(subject.rpartition("/")[2]) != row % subjects:
                verdict.differing += 1
                verdict.note(f"{subject}: row {row}")
            if row // batch_rows < before:
                verdict.reordered += 1
                verdict.note(f"{subject}: row {row} of batch {row // batch_rows} after batch {before}")
            before = max(before, row // batch_rows)
    for row in range(batches * batch_rows):
        if row not in times:
            verdict.lost += 1
            verdict.note(f"row {row} of batch {row // batch_rows} is not there")
    for row, count in times.items():
        if count > 1:
            verdict.doubled += count - 1
            verdict.note(f"row {row} is there {count} times")
    return verdict


def check_bars(
    published: Sequence[tuple[str, str, Mapping[str, str]]],
    recomputed: Mapping[tuple[str, str], tuple[str, Mapping[str, str]]],
    must_have: int,
) -> Verdict:
    """``published`` are the messages: subject, content, fields; ``recomputed`` has by subject and start what a batch
    makes of all ticks. Bars that end before ``must_have`` (ms) must have been published."""
    verdict = Verdict()
    seen: set[tuple[str, str]] = set()
    for subject, content, fields in published:
        verdict.rows += 1
        key = subject, fields["start"]
        if key in seen:
            verdict.doubled += 1
            verdict.note(f"{subject} from {fields['start']} was published twice")
        seen.add(key)
        if key not in recomputed or recomputed[key] != (content, dict(fields)):
            verdict.differing += 1
            verdict.note(f"{subject}: {content} {dict(fields)}, a batch makes {recomputed.get(key)}")
    for key, (_, fields) in recomputed.items():
        if key not in seen and int(fields["end"]) < must_have:
            verdict.lost += 1
            verdict.note(f"{key} was not published")
    return verdict
