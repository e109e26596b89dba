"""One beat a second, by which others see that this process' loop runs: the parent, the first worker, systemd."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..node import messages
from ..runtime.component import Offers
from ..runtime.runtime import Runtime

BEAT_SECONDS = 1.0

SILENT_SECONDS = 5.0
"""A worker that has not been heard of for so long is named; a delay is remembered as long."""

LATE_SECONDS = 1.0
"""A loop that was held up for so long was not responsive."""


class Heartbeat:
    """Beats while the loop runs, from ``start`` on: each beat calls all of ``beats``.

    The other workers of a node (``others``) tell the first one of theirs, with how late it was and whether they are
    ``full``; ``troubles`` there says who is missing, who was held up, and whether nobody takes clients any more.
    """

    def __init__(self, runtime: Runtime, others: int) -> None:
        self.beats: list[Callable[[], None]] = []
        self._is_full: Callable[[], bool] = lambda: False
        self._runtime = runtime
        self._due = 0.0
        self._late: dict[int, tuple[float, float]] = {}
        """Seconds that each worker's loop was held up, and when that was heard of."""
        self._heard: dict[int, float] = dict.fromkeys(range(1, others + 1), 0.0)
        """Times when each of the others was heard of last (Runtime.awake); minus infinity once it is gone."""
        self._full: set[int] = set()
        """Numbers of the others that take no more clients."""
        self.offers = Offers(messages={messages.Beat: self._told}, parted=self._parted)

    def start(self, beat: Callable[[], None], full: Callable[[], bool]) -> None:
        """Begin, with one more to be called; the others have their time from now on. ``full`` tells whether this worker
        takes no more clients, because it has as many as it may."""
        self.beats.append(beat)
        self._is_full = full
        self._due, begin = time.monotonic(), self._runtime.awake.time
        self._heard = {worker: max(heard, begin) for worker, heard in self._heard.items()}
        self._tick()

    def troubles(self) -> dict[str, str]:
        """Return what stands against this node, by name (``workers``, ``loop`` and ``full``), as sentences."""
        moment, awake, found = time.monotonic(), self._runtime.awake.time, {}
        missing = [
            _absent(worker, awake - heard) for worker, heard in self._heard.items() if awake - heard > SILENT_SECONDS
        ]
        if missing:
            found["workers"] = ", ".join(missing)
        late = [
            f"worker {worker} stood still for {seconds:.1f} s"
            for worker, (seconds, heard) in sorted(self._late.items())
            if moment - heard < SILENT_SECONDS
        ]
        if late:
            found["loop"] = ", ".join(late)
        if self._is_full() and all(
            worker in self._full for worker, heard in self._heard.items() if heard > float("-inf")
        ):
            found["full"] = "there is no place for another client"
        return found

    def _tick(self) -> None:
        late = time.monotonic() - self._due
        if late > LATE_SECONDS:
            self._note(0, late)
        for beat in self.beats:
            beat()
        if self._runtime.workers.follows:
            self._runtime.workers.to_first(messages.Beat(late, self._is_full()))
        self._due = time.monotonic() + BEAT_SECONDS
        self._runtime.loop.call_later(BEAT_SECONDS, self._tick)

    def _told(self, worker: int, beat: messages.Beat) -> None:
        """Note, on the first worker, that another one's loop runs."""
        self._heard[worker] = self._runtime.awake.time
        if beat.late > LATE_SECONDS:
            self._note(worker, beat.late)
        if beat.full:
            self._full.add(worker)
        else:
            self._full.discard(worker)

    def _parted(self, worker: int) -> None:
        if worker in self._heard:
            self._heard[worker] = float("-inf")
            self._full.discard(worker)

    def _note(self, worker: int, seconds: float) -> None:
        self._late[worker] = (seconds, time.monotonic())


def _absent(worker: int, seconds: float) -> str:
    return f"worker {worker} is gone" if seconds == float("inf") else f"worker {worker} is silent for {seconds:.0f} s"
