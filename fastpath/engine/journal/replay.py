"""Rebuilds positions, snapshots, cache and ledger from a journal; what is damaged is named, and nothing is made up.

What a hole (a damaged record, a missing file) has taken is not known. A subject whose later messages go on where those
before the hole ended has lost nothing. Every other one that was known before it loses its cached messages, and stands
in the new epoch that the journal is continued in: nobody can be told that he has recovered across the hole.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from ...core.broker.broker import Broker
from ...core.cache.deduplication import Deduplicator
from ...core.cache.snapshot import Snapshot
from ...core.delivery.audience import Topic
from ...core.protocol.as_of import readable_as_of, version_of
from ...core.protocol.columns import expand
from ...core.protocol.messages import GUARANTEED, Message
from .files import Folder, JournalError
from .format import (
    CLEAN,
    END,
    HEADER,
    LAYOUT,
    MESSAGES,
    PUBLISHERS,
    RUNS,
    SUBJECTS,
    VERSION,
    Damage,
    JournalHeader,
    JournalRecord,
    Released,
    Subject,
    read_header,
    read_messages,
    read_publishers,
    read_records,
    read_released,
    read_subjects,
)

PROGRESS_SECONDS = 2.0
"""Seconds between two lines in which a replay that takes long says how far it is."""

PAGE_BYTES = 512
"""Bytes that a disk writes whole: where the power failed, a file may end with such pages that are all zero."""

log = logging.getLogger("fastpath.journal")


class JournalReplay:
    """A pass over a journal's files into an empty broker; raises JournalError, and OSError from reading.

    Afterwards ``epoch`` is the highest in it (0: there was none), ``keeps_epoch`` says whether its numbers may be
    continued, and ``holes`` counts what is missing.
    """

    def __init__(self, folder: Folder, broker: Broker, deduplicator: Deduplicator, boot: str, now: int) -> None:
        self._folder = folder
        self._broker = broker
        self._ledger = deduplicator
        self._boot = boot
        self._now = now
        self._layout = LAYOUT
        self._log_epoch = 0  # in which the segment at hand was written
        self._suspects: dict[str, int] = {}  # subject → the epoch of the log where a hole is
        self._unknown: set[str] = set()  # of these, those whose position may have gone on in a hole
        self._noted: dict[str | None, list[Any]] = {}  # publishers' names, and their last numbers
        self._publishers: list[tuple[str, int, int]] = []
        self._headers: list[JournalHeader] = []  # of the file at hand, none where it is damaged
        self._original = False  # the last segment is the very file that was written, not a copy
        self._same_boot = False  # and the machine has not been started since
        self._clean = False
        self._removed = False
        self._lost = False  # numbers may have been given that are not known here
        self._base = 0
        self._tell_at = time.monotonic() + PROGRESS_SECONDS
        self._total = self._read = 0
        self.epoch = 0
        self.holes = 0
        self.messages = 0

    @property
    def keeps_epoch(self) -> bool:
        """True if no number can have been given that is not known here."""
        return self.epoch > 0 and not self._lost and self._original and (self._same_boot or self._clean)

    def run(self) -> int:
        """Read everything; the number of the last segment, 0 for an empty journal."""
        self._folder.remove_partial()
        segments = self._folder.segments()
        bases = self._folder.bases()
        self._base = bases[-1] if bases else 0
        files = [self._folder.segment(number) for number in segments]
        if bases:
            files.insert(0, self._folder.base(self._base))
        self._total = sum(path.stat().st_size for path in files)
        if bases:
            self._read_base(files.pop(0))
        expected = min([*segments[:1], self._base or 1])
        for number, path in zip(segments, files, strict=True):
            if number != expected:
                self._hole(number, f"{path.name}: {number - expected} segments before it are missing")
            self._read_segment(number, path, last=number == segments[-1])
            expected = number + (not self._removed)
        if self._base >= expected:
            self._hole(self._base, f"the segments from {self._folder.segment(self._base).name} on are missing")
        self._end()
        return max(expected - 1, self._base)

    def stand_in(self, epoch: int) -> None:
        """Go on in this epoch, as the journal does: so do the subjects of which something may be missing."""
        topics = self._broker.interest.topics
        for subject in self._unknown:
            topic = topics[subject]
            self._broker.history.drop(topic)
            topic.epoch = epoch

    # Segments

    def _read_segment(self, number: int, path: Path, *, last: bool) -> None:
        self._headers.clear()
        damages: list[Damage] = []
        with path.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            for one in read_records(file):
                self._clean = False
                if type(one) is Damage:
                    damages.append(one)
                    continue
                for damage in damages:
                    self._damaged(number, path, damage)
                damages = []
                assert type(one) is JournalRecord
                self._record(number, path, one)
        self._read += path.stat().st_size
        self._original = any(header.inode == inode for header in self._headers)
        self._same_boot = any(header.boot == self._boot != "" for header in self._headers)
        if damages or not self._headers:
            self._tail(number, path, damages, last=last)

    def _record(self, number: int, path: Path, record: JournalRecord) -> None:
        try:
            if record.kind == MESSAGES:
                self._replay(read_messages(record.body, self._layout))
            elif record.kind == RUNS:
                self._replay_runs(read_released(record.body))
            elif record.kind == HEADER:
                self._log_epoch = self._begin(path, record)
            elif record.kind == CLEAN:
                self._clean = True
        except (msgspec.DecodeError, TypeError, ValueError) as error:  # the sums are right: a fault of the writer
            self._hole(number, f"{path.name}: the record at byte {record.offset} cannot be read: {error}")
        if time.monotonic() > self._tell_at:
            self._tell_at += PROGRESS_SECONDS
            log.info(
                "replaying: %d of %d MiB, %d messages",
                (self._read + record.offset) >> 20,
                self._total >> 20,
                self.messages,
            )

    def _begin(self, path: Path, record: JournalRecord) -> int:
        header = read_header(record)
        self._headers.append(header)
        if header.version > VERSION:
            raise JournalError(f"{path} was written by a newer version of this program")
        self._layout = header.layout
        self.epoch = max(self.epoch, header.epoch)
        return header.epoch

    def _tail(self, number: int, path: Path, damages: list[Damage], *, last: bool) -> None:
        """Damage with nothing good behind it. At the end of all it may be what a write left undone."""
        first = damages[0] if damages else Damage(0, 0, True)
        if last and (first.torn or (not self._same_boot and _ends_in_pages_of_zeros(path, first.offset))):
            log.warning("%s: cut at byte %d: what comes there was never written to its end", path.name, first.offset)
            if not self._headers:
                path.unlink()
                self._removed = True
            else:
                with path.open("r+b") as file:
                    file.truncate(first.offset)
                    os.fsync(file.fileno())
            return
        if not damages:
            self._hole(number, f"{path.name}: the file is empty")
        for damage in damages:
            self._damaged(number, path, damage)

    def _damaged(self, number: int, path: Path, damage: Damage) -> None:
        size = damage.end - damage.offset
        self._hole(number, f"{path.name}: {size} bytes from byte {damage.offset} on are damaged and left out")

    def _hole(self, number: int, what: str) -> None:
        """Note that something of this segment, or just before it, is missing."""
        log.error("%s", what)
        self.holes += 1
        topics = self._broker.interest.topics
        self._suspects = dict.fromkeys(topics, self._log_epoch)
        if number >= self._base:  # the positions of what is older are in the base
            self._unknown.update(topics)
            self._lost = True

    # Messages

    def _replay(self, messages: list[Any]) -> None:
        broker, now = self._broker, self._now
        age_of, guaranteed = broker.history.age_of, broker.guaranteed
        topics, append, snapshots = broker.interest.topics, broker.history.append, broker.snapshots
        snapshot_ms = broker.limits.snapshot_ms or now
        noted, note = self._noted, self._ledger.note
        self.messages += len(messages)
        for message in messages:
            topic = topics.get(message.subject)
            if topic is None:
                topic = broker.topic(message.subject, message.epoch)
            message.subject = topic.subject
            message.qos = GUARANTEED
            if message.time > now:
                message.time = now  # the clock was set back
            if message.as_of is not None:
                message.as_of = readable_as_of(message.as_of)
            seq = message.seq
            if seq > topic.seq:
                if message.epoch != topic.epoch or seq != topic.seq + 1 or self._suspects:
                    self._step(topic, message)
                topic.seq = seq
                if message.as_of is not None:
                    topic.version = max(topic.version, version_of(message.as_of))
                if message.retained and snapshots and (topic.options is None or topic.options.retained):
                    snapshot = topic.snapshot
                    if snapshot is None or snapshot.newest.time < message.time - snapshot_ms:
                        topic.snapshot = Snapshot(message)
                    else:
                        snapshot.merge(message)
            elif self._suspects and self._suspects.pop(topic.subject, message.epoch) < message.epoch:
                broker.history.drop(topic)
            number = message.publication
            if number:
                known = noted.get(message.publisher) or self._publisher(message)
                message.publisher = known[0]  # one text for all
                if number > known[1]:
                    known[1] = number
                    note(known[0], number, message.epoch, seq, message.time)
            ring = topic.ring
            if ring:
                if ring[-1].seq < seq:  # else it was written twice, because a sync had failed
                    append(topic, message)
            elif guaranteed and message.time > now - age_of(topic):
                append(topic, message)
            else:
                topic.floor = message.epoch

    def _replay_runs(self, released: Released) -> None:
        """Replay runs; of a publisher who releases them the last number alone is known, as it was before."""
        for seq, run in released.runs:
            self._replay(expand(run, epoch=released.epoch, seq=seq, time=released.time))
        self._ledger.advance(released.publisher, released.last, released.time)

    def _step(self, topic: Topic, message: Message) -> None:
        """Go on with a subject that does not do so within its epoch or from where it was, or does so after a hole."""
        known = self._suspects.pop(topic.subject, message.epoch)
        self._unknown.discard(topic.subject)
        if message.seq != topic.seq + 1 or message.epoch > known:
            self._broker.history.drop(topic)
        elif message.epoch != topic.epoch and not topic.ring:
            topic.floor = topic.epoch
        topic.epoch = message.epoch

    def _publisher(self, message: Message) -> list[Any]:
        """Name and last number of a publisher that is met first."""
        name = message.publisher or ""
        self._ledger.restore(name, message.publication - 1, message.time)  # what came before is too old
        known = self._noted[name] = [name, message.publication - 1]
        return known

    # Bases

    def _read_base(self, path: Path) -> None:
        ended = False
        with path.open("rb") as file:
            for one in read_records(file):
                if type(one) is Damage:
                    self._damaged(self._base, path, one)
                    continue
                assert type(one) is JournalRecord
                try:
                    if one.kind == HEADER:
                        self._begin(path, one)
                    elif one.kind == SUBJECTS:
                        self._subjects(read_subjects(one.body, self._layout))
                    elif one.kind == PUBLISHERS:
                        self._publishers += read_publishers(one.body)
                    elif one.kind == END:
                        ended = True
                except (msgspec.DecodeError, TypeError, ValueError) as error:
                    self._hole(self._base, f"{path.name}: the record at byte {one.offset} cannot be read: {error}")
        if not ended:
            self._hole(self._base, f"{path.name}: its end is missing")
        self._suspects, self._unknown = {}, set()  # what the base does tell of is right
        self._read += path.stat().st_size

    def _subjects(self, subjects: list[Subject]) -> None:
        make, keeps_snapshot = self._broker.interest.topic, self._broker.keeps_snapshot
        for one in subjects:
            topic = make(one.subject, one.epoch)
            topic.seq = one.seq
            topic.version = one.version
            newest = one.newest
            if newest is not None and keeps_snapshot(topic):
                newest.subject = topic.subject
                newest.qos = GUARANTEED
                newest.as_of = readable_as_of(newest.as_of)
                if newest.time > self._now:
                    newest.time = self._now
                topic.snapshot = Snapshot(newest)
                topic.snapshot.fields = one.fields

    def _end(self) -> None:
        for topic in self._broker.interest.topics.values():
            ring = topic.ring
            if ring and (ring[-1].seq, ring[-1].epoch) != (topic.seq, topic.epoch):
                self._broker.history.drop(topic)  # what is left does not lead to where the subject stands
            if topic.epoch > self.epoch:
                self.epoch = topic.epoch
        history = self._broker.history
        history.evicted_by_count = history.evicted_by_age = history.evicted_by_memory = 0  # that was in another life
        for publisher, last, noted in self._publishers:
            self._ledger.restore(publisher, last, min(noted, self._now))


def _ends_in_pages_of_zeros(path: Path, offset: int) -> bool:
    """Return whether the file from there on ends as the power left it: in whole pages never written."""
    with path.open("rb") as file:
        file.seek(offset)
        rest = file.read()
    written = offset + len(rest.rstrip(b"\0"))
    return -(-written // PAGE_BYTES) * PAGE_BYTES < offset + len(rest)
