"""Makes the statistics of what the nodes tell: side by side, into the buckets, into the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from django.db import Error as DatabaseFailure
from django.db import connections

from realtime.stats.store import LeaseLost, Store, timeline_of
from realtime.stats.timeline import WAIT_SECONDS, Timeline
from realtime.stats.windows import INDICATORS, History

SAVE_SECONDS = 1.5
"""Seconds after which the history is saved, which is in every second round: the statistics are read from the
database."""

JUMP_SECONDS = 1.5
"""The clock has been set by more than that, at once or little by little: a jump, with which the history goes."""

log = logging.getLogger(__name__)


def steady() -> float:
    """Return seconds by a clock that never jumps, and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True)
class Clock:
    """The clock on the wall, which may be set, and one that never jumps; both in seconds."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = steady


class Collector:
    """``begin`` until it is True; then in each round ``follow_clock``, of each node ``take`` or ``gone``, ``close``."""

    def __init__(self, nodes: Iterable[str], store: Store, clock: Clock | None = None) -> None:
        self.nodes = tuple(nodes)
        self.history = History()
        self.timeline = Timeline()
        self._store = store
        self._clock = clock or Clock()
        self._saved_at = 0.0
        self._moment = 0.0
        """Time at which this round began, by the steady clock."""
        self._offset = 0.0
        """Added to the steady clock it gives the time of the history. It changes only by whole seconds, and together
        with the history: so no second is passed over or met twice, however the clock is set, and whenever."""
        self._strange_until = 0.0
        """Time until which the nodes tell whether the clock is another than that of the collector before."""
        self._trouble = ""

    def begin(self) -> bool:
        """Go on from what the database holds; False while another one collects or the database does not answer."""
        saved = self._try(self._store.claim)
        if saved is None:
            return False
        self.history, self.timeline = saved.history, timeline_of(saved)
        wall, self._moment = self._clock.wall(), self._clock.steady()
        self._offset, self._saved_at = wall - self._moment, self._moment
        self._strange_until = self._moment + WAIT_SECONDS
        self.timeline.expect(self.nodes, self._moment)
        if self.timeline.through > wall + JUMP_SECONDS:
            self._move(floor(wall) - 1 - self.timeline.through)  # it was set back meanwhile
        return True

    def take(self, node: str, answer: Mapping[str, Any], answered: float) -> int:
        """Take what a node answered to ``samples``, at that time of the steady clock; return how many samples there
        were."""
        wall, moment = answered + self._offset, self._clock.steady()
        if moment <= self._strange_until and (jump := self.timeline.jump(node, answer, wall)) is not None:
            self._strange_until = 0.0
            self._set(jump)
        return self.timeline.take(node, answer, wall, moment)

    def gone(self, node: str) -> None:
        """Note that there is no process at that address."""
        self.timeline.gone(node)

    def follow_clock(self) -> None:
        """Move the history with the clock, if that was set since the last round. Before the samples of a round."""
        wall, self._moment = self._clock.wall(), self._clock.steady()
        jump = wall - self._moment - self._offset
        if abs(jump) > JUMP_SECONDS:
            self._offset += round(jump)
            self._set(round(jump))

    def close(self) -> bool:
        """Add what is complete, and save when it is time. False: another collector has taken over; begin again."""
        for second, sample in self.timeline.close(self._moment + self._offset, self._moment):
            self.history.add(second, sample)
        if self._moment - self._saved_at >= SAVE_SECONDS or self.history.moved:
            return self.save()
        return True

    def save(self) -> bool:
        """Save now; while the database does not answer everything is kept here. False: another one has taken over."""
        self._saved_at = self._moment
        self.history.prune(self.moment)
        try:
            self._try(lambda: self._store.save(self.history, self.timeline))
        except LeaseLost:
            log.warning("another collector has taken over")
            return False
        return True

    def end(self) -> None:
        """Save, and let another one collect."""
        if self.save():
            self.let_go()

    def let_go(self) -> None:
        """Let another one collect at once, which asks the nodes for what is not saved."""
        self._try(self._store.release)

    @property
    def moment(self) -> int:
        """The end of the last second that is closed (s since 1970): where the windows end."""
        return self.timeline.through + 1

    def windows(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return the windows of the seven indicators."""
        return self.history.windows(self.moment, INDICATORS)

    def _set(self, jump: int) -> None:
        if jump:
            log.warning("the clock was set by %+d s: the statistics go with it", jump)
            self._move(jump)

    def _move(self, seconds: int) -> None:
        if self.timeline.through >= 0:
            self.history.move(self.moment, self.moment + seconds)
        self.timeline.move(seconds)

    def _try(self, what: Callable[[], Any]) -> Any:
        """Return the result of the work; None when the database does not answer, which is logged once."""
        try:
            found = what()
        except DatabaseFailure as error:
            connections[self._store.database].close()  # the next attempt opens another
            why = " ".join(str(error).split())
            if why != self._trouble:
                self._trouble = why
                log.error("the statistics cannot be saved: %s; trying again", why)
            return None
        if self._trouble:
            self._trouble = ""
            log.info("the statistics are saved again")
        return found
