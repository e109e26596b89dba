"""The embedded engine with a journal: what is numbered is written to a file before anybody sees it.

A process that is killed loses nothing that it has numbered: the kernel has it. What a machine that fails may lose
depends on when the file is synced: each second, or (``batch``) before anything is acknowledged.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from ...core.broker.admission import Done, Outcome, with_refusals
from ...core.cache.deduplication import REMEMBERED_MS
from ...core.protocol.columns import ColumnBatch
from ...core.protocol.messages import STANDARD, Message
from ...core.protocol.options import OptionRow
from ...core.protocol.packets import Refusal
from ...listen_address import SettingsError
from ..base import EngineHost, SessionStore
from ..memory import MemoryEngine
from ..order_fence import HELD, OrderFence
from ..staging.store import StagingStore
from .checkpoint import BaseWriter
from .files import FULL, PARTIAL, Folder, JournalError, RecordFile, boot_id, check_folder
from .format import CLEAN, MESSAGES, RUNS, Released
from .options_file import OptionsFile
from .replay import JournalReplay
from .session_files import SessionFiles
from .staging.files import FileStaging
from .sync import Syncs, Written
from .upkeep import Upkeep

if TYPE_CHECKING:
    from ...settings import Settings

SEGMENT_BYTES = 64 << 20
"""A segment that is larger is followed by the next one; a base is written no sooner than after so much log."""

STAGED_FOLDER = "staged"
"""Folder below the journal's for what is staged."""

SESSIONS_FOLDER = "sessions"
"""Folder below the journal's for the sessions of MQTT clients."""

UNSYNCED_BYTES_MAX = 256 << 20
"""Bytes that may be written and not synced: they are held in memory, for the case that a sync fails."""

CALM_SECONDS = 5.0
"""Seconds after the last failure in which no good write is told in the log: on a nearly full disk small ones work."""

BEHIND = "the disk does not keep up: too much waits to be synced"
"""Reason why nothing is taken above that."""

log = logging.getLogger("fastpath.journal")

_encode = msgspec.msgpack.Encoder().encode


class JournalEngine(MemoryEngine):
    """Numbers messages like the engine in memory, and keeps them in the folder ``path``.

    The order of its life: construct (raises JournalError), ``attach``, ``restore``, ``run``, then appends, at last
    ``close``.
    """

    keeps = True

    def __init__(self, path: str, *, batch: bool, clock: Callable[[], int], segment_bytes: int = SEGMENT_BYTES) -> None:
        super().__init__(clock())
        self._folder = Folder(path)
        self._batch = batch
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._boot = boot_id()
        self._options = OptionsFile(self._folder.path, PARTIAL)
        self.folder = path
        self._file: RecordFile | None = None
        self._number = 0  # of the next segment
        self._syncs = Syncs(self._folder, self._reopen)
        self._upkeep = Upkeep(self._folder, self._begin_base, keep_seconds=0, base_after_bytes=segment_bytes)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._holds = OrderFence(time.monotonic)
        self._full = False
        self._refusing = False
        self._refused_at = 0.0
        self._crowded = False
        self.writes_failed = 0
        self.holes = 0

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Engine: the folder must be writable."""
        try:
            check_folder(settings.data)
        except JournalError as error:
            raise _wrong(error) from None

    @classmethod
    def make(cls, settings: Settings, clock: Callable[[], int]) -> Self:
        try:
            return cls(settings.data, batch=settings.journal == "batch", clock=clock)
        except JournalError as error:
            raise _wrong(error) from None

    # Start and end

    def start(self, host: EngineHost) -> None:
        try:
            self.restore()
        except JournalError as error:
            raise _wrong(error) from None
        self.run(host.loop, host.end)

    def restore(self, epoch_min: int = 0) -> None:
        """Bring the empty broker to where the journal ends, and go on there, in no lower epoch than ``epoch_min``.

        Raises JournalError.
        """
        now, broker = self._clock(), self._broker
        rows = self._options.read()
        if rows:
            log.info("%d options of subjects count as they did last, until Django says otherwise", len(rows))
        broker.interest.renew_options(rows)
        replay = JournalReplay(self._folder, broker, self.deduplicator, self._boot, now)
        gc.disable()  # what is made here makes no cycles and stays
        try:
            last = replay.run()
            kept = replay.keeps_epoch and replay.epoch >= epoch_min
            self.epoch = replay.epoch if kept else max(now, replay.epoch + 1, epoch_min)
            replay.stand_in(self.epoch)
            for topic in broker.interest.topics.values():
                self._sequences[topic.subject] = topic.seq
            self._upkeep = Upkeep(
                self._folder,
                self._begin_base,
                keep_seconds=self._keep_seconds(),
                base_after_bytes=self._segment_bytes,
            )
            self._upkeep.find()
            self._number = last + 1
            self._try_file()
        except OSError as error:
            raise JournalError(f"{error.filename or self._folder.path}: {error.strerror or error}") from None
        finally:
            gc.enable()
        self.holes = replay.holes
        if self.holes:
            self._upkeep.want_base()
        if replay.messages or broker.interest.topics:
            log.info(
                "the journal has %d subjects, %d messages; epoch %d%s",
                len(broker.interest.topics),
                replay.messages,
                self.epoch,
                " goes on" if kept else "",
            )
        if self._batch:
            self._syncs.lost = broker.counters.failed

    def _keep_seconds(self) -> float:
        """Return how long a segment is kept, in seconds: whatever of it may still be cached or asked for."""
        return max(self._broker.interest.options.cache_ms_most, REMEMBERED_MS) / 1000

    def keep_options(self, rows: Sequence[OptionRow]) -> None:
        """Engine: beside the journal, for what is cached of it after a restart."""
        self._options.write(rows)
        self._upkeep.keep(self._keep_seconds())

    def run(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None]) -> None:
        """Sync the journal and keep it short from now on; call ``after`` when answers were given outside of a tick."""
        self._loop = loop
        self._syncs.after = after
        self._syncs.start(loop)
        self._upkeep.start(loop)
        self._on_second()

    def close(self) -> None:
        """Sync everything and say so in the journal: the next start goes on in this epoch."""
        if self._timer is not None:
            self._timer.cancel()
        self._upkeep.close()
        synced = self._syncs.close()
        file = self._file
        if file is not None:
            try:
                if synced:
                    file.finish(CLEAN)
            except OSError as error:
                log.error("the journal is not closed in order: %s", error.strerror or error)
            file.close()
        self._folder.close()

    def open_staging(self, clock: Callable[[], int], *, bytes_max: int, keep_seconds: int) -> StagingStore:
        """Engine: in files beside the journal."""
        folder = Path(self.folder) / STAGED_FOLDER
        return FileStaging(folder, clock, bytes_max=bytes_max, keep_seconds=keep_seconds)

    def open_sessions(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int]) -> SessionStore:
        """Engine: in files beside the journal."""
        return SessionFiles(Path(self.folder) / SESSIONS_FOLDER, loop, clock)

    # Publications

    def submit(self, messages: Sequence[Message], now: int, done: Done | None) -> None:
        super().submit(messages, now, done and self.acknowledging(done))

    def acknowledging(self, done: Done) -> Done:
        """Engine: with ``batch`` it waits for the disk."""
        return partial(self._syncs.acknowledge, done) if self._batch else done

    def when_safe(self, told: Callable[[], None]) -> None:
        """Engine: when all that was appended is on the disk."""
        self._syncs.acknowledge(lambda outcomes: told(), [])

    def append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Number them and write them; a write that fails refuses them all, and nothing has changed."""
        if self._syncs.failed or self._syncs.bytes > UNSYNCED_BYTES_MAX:
            why = self._syncs.failed or BEHIND
            if any(message.qos != STANDARD for message in messages):
                self._full = True
                self._holds.away()
                self._holds.note(messages)
                return [("unavailable", why)] * len(messages)
        elif self._holds:
            return self._append_behind(messages, now)
        return self._append(messages, now)

    def _append_behind(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        """Append while what was refused has to come again before what follows it."""
        if self._full:
            self._full = False
            self._holds.back()
        early = self._holds.refused(messages, HELD)
        if not early:
            return self._append(messages, now)
        taken = [message for index, message in enumerate(messages) if index not in early]
        outcomes = self._append(taken, now)
        merged: list[Outcome] = []
        with_refusals(merged.extend, early)([one.seq for one in taken] if outcomes is None else outcomes)
        return merged

    def _append(self, messages: Sequence[Message], now: int) -> list[Outcome] | None:
        outcomes = super().append(messages, now)
        numbered = [message for message in messages if message.seq]
        if not numbered:
            return outcomes
        try:
            self._write(MESSAGES, numbered)
        except OSError as error:
            return self._refuse(messages, numbered, outcomes, error)
        return outcomes

    def stored(self, publisher: str) -> int:
        """Return the last number, as MemoryEngine does; 0 while nothing can be synced: then a retry is refused like new
        messages."""
        return 0 if self._syncs.failed else super().stored(publisher)

    def append_runs(self, runs: Sequence[ColumnBatch], publisher: str, last: int, now: int) -> list[int] | Refusal:
        """Append runs as MemoryEngine does; written as one record before anything has changed."""
        starts, ends = self._places(runs)
        if ends:
            if self._syncs.failed or self._syncs.bytes > UNSYNCED_BYTES_MAX:
                return "unavailable", self._syncs.failed or BEHIND
            kept = [(start, run) for start, run in zip(starts, runs, strict=True) if start]
            try:
                self._write(RUNS, _raw(Released(publisher, last, self.epoch, now, kept)))
            except OSError as error:
                self.writes_failed += 1
                return "failed", self._tell_refusing(error)
        self._number_runs(ends, publisher, last, now)
        return starts

    def _write(self, kind: int, body: Any) -> None:
        """Write a record; raises OSError, and then it is not there."""
        file = self._file
        if file is None or file.size > self._segment_bytes or file.broken:
            file = self._next_file()
        before = file.size
        file.write(kind, body)
        self._syncs.note(kind, body, file.size - before)
        if self._refusing and time.monotonic() - self._refused_at >= CALM_SECONDS:
            self._refusing = False
            log.warning("the journal can be written again")

    @property
    def trouble(self) -> str:
        """Engine. A write that failed is told for some seconds: without publications none is tried."""
        if self._syncs.failed:
            return self._syncs.failed
        recent = self._refusing and time.monotonic() - self._refused_at < CALM_SECONDS
        return "the journal cannot be written" if recent else ""

    def figures(self) -> dict[str, float]:
        """Return the journal's own metrics by name (docs/operate/figures.md)."""
        return {
            "journal_bytes": self._upkeep.bytes + (self._file.size if self._file is not None else 0),
            "journal_segments": self._upkeep.segments + 1,
            "journal_sync_ms": round(self._syncs.milliseconds, 2),
            "journal_failed_writes": self.writes_failed + self._syncs.failures,
            "journal_damaged": self.holes,
        }

    def _refuse(
        self, messages: Sequence[Message], numbered: list[Message], outcomes: list[Outcome] | None, error: OSError
    ) -> list[Outcome]:
        """Take everything back that numbering has changed. What has been stored before this batch is none of it."""
        undone = {(message.publisher, message.publication) for message in numbered}
        for message in reversed(numbered):
            if message.publication:
                self.deduplicator.undo(message.publisher or "", message.publication)
            if message.seq == 1:
                del self._sequences[message.subject]
            else:
                self._sequences[message.subject] = message.seq - 1
            message.epoch = message.seq = 0
        self.writes_failed += 1
        refusal: Outcome = ("failed", self._tell_refusing(error))
        return [
            refusal if isinstance(outcome, int) or (message.publisher, message.publication) in undone else outcome
            for message, outcome in zip(messages, outcomes or [0] * len(messages), strict=True)
        ]

    def _tell_refusing(self, error: OSError) -> str:
        self._refused_at = time.monotonic()
        why = f"the journal cannot be written: {error.strerror or error}"
        if not self._refusing:
            self._refusing = True
            log.error("%s; publications are refused until it can be", why)
        return why

    # Files

    def _try_file(self) -> None:
        """Begin the first segment of this life. A full disk is no reason not to start: it is tried again."""
        try:
            self._next_file()
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._tell_refusing(error)

    def _new_file(self) -> RecordFile:
        file = RecordFile(self._folder.segment(self._number), self._number, self.epoch, self._boot, self._clock())
        self._number += 1
        return file

    def _next_file(self) -> RecordFile:
        """Go on in a new segment; where there is no room for one, in the old one. Raises OSError."""
        file = self._file
        try:
            following = self._new_file()
        except OSError as error:
            if file is None or file.broken:
                raise
            if not self._crowded:
                self._crowded = True
                log.error("the journal cannot begin a new segment: %s; going on in the old one", error.strerror)
            return file
        self._crowded = False
        if file is not None:
            self._upkeep.seal(file.number, file.size)
        self._syncs.begin(following)
        self._file = following
        return following

    def _reopen(self, written: Written) -> RecordFile:
        """Write again what was not synced, in a new segment; raises OSError."""
        file = self._file
        assert file is not None
        following = self._new_file()
        try:
            for kind, body in written:
                following.write(kind, body)
        except OSError:
            following.remove()
            self._number = following.number
            raise
        self._upkeep.seal(file.number, file.size)
        self._upkeep.want_base()
        self._file = following
        return following

    def _begin_base(self) -> BaseWriter:
        file = self._next_file()
        return BaseWriter(
            self._folder, self._broker.interest, self.deduplicator, file.number, self.epoch, self._boot, self._clock()
        )

    def _on_second(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(1, self._on_second)
        self._syncs.on_second()
        if not self._syncs.failed and self._file is not None:
            self._upkeep.on_second(self._file.size)


def _wrong(error: JournalError) -> SettingsError:
    return SettingsError(f"FASTPATH_DATA: {error}")


def _raw(body: Released) -> msgspec.Raw:
    """Return the body as bytes, which are kept until they are synced: as lists they would be a pause for everybody at
    each look of the collector. Raise OSError, as what cannot be written does."""
    try:
        return msgspec.Raw(_encode(body))
    except (OverflowError, TypeError, ValueError) as error:  # half a character
        raise OSError(errno.EINVAL, str(error)) from None
