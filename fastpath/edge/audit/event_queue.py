"""The way of events from the data path to files and listeners: a bounded queue, encoded in slices.

docs/operate/audit.md explains it.

On the data path an event is put into the queue, no more. Slices of it are encoded on the loop between other work, not
in a thread, which would hold the interpreter's lock for as long; a thread only writes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ...core.protocol.messages import Result
from ..runtime.runtime import Runtime, now
from .events import AccessEvent, DroppedEvent, Event, node_name, stamp
from .files import AuditFiles
from .listeners import AuditListeners

EVENTS_MAX = 50_000
"""Events that may wait to be encoded; what comes beyond is dropped and counted."""

CONTENT_WAITING_MAX = 32 << 20
"""Bytes of content that may wait with them."""

SLICE_SECONDS = 0.1
"""Seconds that events are gathered before the first slice: to wake the thread that writes costs 0.3 ms of CPU."""

SLICE_EVENTS = 500
"""Events encoded in one turn of the loop: well below a millisecond."""

SLICE_BYTES = 1 << 20
"""Bytes of their content."""

log = logging.getLogger("fastpath.audit")

_encode_lines = msgspec.json.Encoder().encode_lines


class AuditQueue:
    """Events of one process; ``changed`` is called when other kinds are ``wanted``."""

    def __init__(self, runtime: Runtime, worker: int, workers: int, changed: Callable[[], None]) -> None:
        self._loop = runtime.loop
        self._worker = worker
        self._queue: deque[tuple[Event, Result | None, int]] = deque()
        self._content_waiting = 0
        self._due = False
        self._dropped: dict[str, int] = {}
        self._unwritten: dict[str, int] = {}  # dropped, and no file tells of it yet
        self._unheard = 0  # the same for listeners
        settings = runtime.settings
        self._written = frozenset(settings.audit_kinds)
        self._files: AuditFiles | None = None
        if self._written:
            self._files = AuditFiles(
                settings.audit_folder, worker, workers, settings.audit_bytes, settings.audit_files, self._dropped_line
            )
        self.listeners = AuditListeners(runtime, changed)

    @property
    def wanted(self) -> frozenset[str]:
        """The kinds of events that are written or listened to."""
        return self._written | self.listeners.wanted

    @property
    def dropped(self) -> int:
        """Events that were not written, or told nobody: there were too many, or the disk took none."""
        failed = list(self._files.failed.values()) if self._files is not None else ()
        return sum(self._dropped.values()) + sum(failed)

    @property
    def waiting(self) -> int:
        """Events that wait to be encoded."""
        return len(self._queue)

    def note(self, event: Event, result: Result | None = None, weight: int = 0) -> None:
        """Hand the event on later; of a subscription's ``result`` the pattern is read then. ``weight`` is what its
        content takes, in bytes."""
        if len(self._queue) >= EVENTS_MAX or (weight and self._content_waiting + weight > CONTENT_WAITING_MAX):
            self._drop({event.kind: 1})
            self._unheard += 1
            return
        self._queue.append((event, result, weight))
        self._content_waiting += weight
        if not self._due:
            self._due = True
            self._loop.call_later(SLICE_SECONDS, self._slice)

    def close(self) -> None:
        """Write all that has happened."""
        while self._queue:
            self._slice()
        if self._files is not None:
            self._files.close(self._unwritten)

    def _slice(self) -> None:
        events: list[Event] = []
        size = 0
        while self._queue and len(events) < SLICE_EVENTS and size < SLICE_BYTES:
            event, result, weight = self._queue.popleft()
            event.time = stamp(int(event.time))
            if result is not None and isinstance(event, AccessEvent):
                event.pattern = result.pattern
            size += weight
            events.append(event)
        self._content_waiting -= size
        try:
            self._write(events)
            unheard, self._unheard = self._unheard, 0
            self.listeners.offer(events, unheard)
        except Exception:
            log.exception("a fault of the audit: up to %d events are lost", len(events))
        self._due = bool(self._queue)
        if self._due:
            self._loop.call_soon(self._slice)

    def _write(self, events: Sequence[Event]) -> None:
        files = self._files
        if files is None:
            return
        chosen = [event for event in events if event.kind in self._written]
        counts: dict[str, int] = {}
        for event in chosen:
            counts[event.kind] = counts.get(event.kind, 0) + 1
        if not chosen:
            return
        try:
            lines = _encode_lines(chosen)
        except Exception:
            lines = self._each(chosen, counts)
        if files.write(lines, counts, self._unwritten):
            self._unwritten = {}
        else:
            self._drop(counts)

    def _each(self, events: Sequence[Event], counts: dict[str, int]) -> bytes:
        """Return the lines of the events that can be written; drop the others, and leave them out of ``counts``."""
        lines = []
        for event in events:
            try:
                lines.append(_encode_lines([event]))
            except Exception as error:
                log.error("an event of the audit cannot be written and is dropped: %s: %s", event.kind, error)
                counts[event.kind] -= 1
                self._drop({event.kind: 1})
        return b"".join(lines)

    def _drop(self, counts: Mapping[str, int]) -> None:
        for kind, count in counts.items():
            self._dropped[kind] = self._dropped.get(kind, 0) + count
            if kind in self._written:
                self._unwritten[kind] = self._unwritten.get(kind, 0) + count

    def _dropped_line(self, counts: Mapping[str, int]) -> bytes:
        """Return what a file says of what it does not hold; called by the thread that writes."""
        moment = stamp(now())
        line = DroppedEvent(
            time=moment, kind="audit", event="dropped", node=node_name(), worker=self._worker, dropped=dict(counts)
        )
        return _encode_lines([line])
