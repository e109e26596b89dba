"""A base: where all subjects and publishers stand, written in slices beside the log, so that old log can go.

A base is fuzzy. Its number is that of the segment which was begun with it: what older segments hold is in the base,
and what came while it was written may be. So of a message in the log that is not above its subject's number in the
base, the snapshot knows already.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from ...core.cache.deduplication import Deduplicator
from ...core.delivery.audience import Topic
from ...core.delivery.interest import SubscriptionIndex
from .files import PARTIAL, Folder, RecordFile, sync_data
from .format import END, PUBLISHERS, SUBJECTS, Subject

ROWS_BYTES = 64 << 10
"""About what one record holds: a fraction of a slice's time."""

ROW_BYTES = 200
"""Bytes that a subject counts for besides its snapshot."""

PUBLISHERS_AT_ONCE = 500


class BaseWriter:
    """Writes one base; every method raises OSError, and then the base is given up with ``abandon``."""

    def __init__(
        self,
        folder: Folder,
        interest: SubscriptionIndex,
        deduplicator: Deduplicator,
        number: int,
        epoch: int,
        boot: str,
        now: int,
    ) -> None:
        self._folder = folder
        self._interest = interest
        self._ledger = deduplicator
        self.number = number
        self._file = RecordFile(folder.base(number).with_suffix(PARTIAL), number, epoch, boot, now)
        self._steps = self._write()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    def slice(self, seconds: float) -> bool:
        """Go on for about so long, a record at least; False when all is written."""
        until = time.perf_counter() + seconds
        while not next(self._steps, True):
            if time.perf_counter() >= until:
                return True
        return False

    def finish(self) -> None:
        """Bring it to the disk and in force; may be called in a thread."""
        sync_data(self._file.descriptor)
        self._file.close()
        os.replace(self._file.path, self._folder.base(self.number))
        self._folder.sync()

    def abandon(self) -> None:
        """Give the base up, as it is not needed or cannot be finished."""
        self._file.close()
        self._file.path.unlink(missing_ok=True)

    def _write(self) -> Iterator[bool]:
        # Subjects that come later are in the log alone, and those that go have nothing worth to be kept.
        topics = self._interest.topics
        count = size = 0
        rows: list[Subject] = []
        for subject in list(topics):
            topic = topics.get(subject)
            if topic is None or not topic.seq or topic.system:
                continue
            rows.append(_subject(topic))
            count += 1
            size += ROW_BYTES + (topic.snapshot.weigh() if topic.snapshot is not None else 0)
            if size > ROWS_BYTES:
                self._file.write(SUBJECTS, rows)
                rows, size = [], 0
                yield False
        self._file.write(SUBJECTS, rows)
        yield False
        publishers: list[tuple[str, int, int]] = []
        for one in self._ledger.publishers():
            publishers.append(one)
            if len(publishers) == PUBLISHERS_AT_ONCE:
                self._file.write(PUBLISHERS, publishers)
                publishers = []
                yield False
        self._file.write(PUBLISHERS, publishers)
        self._file.write(END, [count])
        yield True


def _subject(topic: Topic) -> Subject:
    snapshot = topic.snapshot
    if snapshot is None:
        return Subject(topic.subject, topic.epoch, topic.seq, version=topic.version)
    newest: Any = snapshot.newest
    return Subject(topic.subject, topic.epoch, topic.seq, newest, snapshot.fields, topic.version)
