"""The collector at work: asks all nodes each second, each beside the others, and tells them what it has found out."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.core.telemetry.samples import ROWS_MAX
from realtime.nodes.asking import Background, Said
from realtime.stats import figures
from realtime.stats.collector import Clock, Collector
from realtime.stats.store import Store

ROUND_SECONDS = 1.0
PHASE_SECONDS = 0.4
"""A round begins so long after each whole second of the clock that is never set: the nodes of this machine have just
taken their samples."""

CLIENT = "collector/1"
"""Name by which the collector calls itself to a node, over the connection that it keeps."""

WAIT_SECONDS = 0.5
"""Seconds that a round waits for answers; later ones are taken in the next."""

STANDBY_SECONDS = 2.0
"""Seconds between two looks of a collector that waits for another to be gone."""

RESTART_SECONDS = 1.0
"""The pause before a collector that failed in a way that it does not know is started again."""

log = logging.getLogger(__name__)


@dataclass
class RoundAnswer:
    """The answer of a node in a round; ``error`` says why there is none."""

    at: float = 0.0
    """Time of the answer by the clock that is never set: the one on the wall may be, before this is looked at."""
    samples: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    gone: bool = False
    """Nobody listens there, so that what it knew is lost."""


class NodeLine:
    """One node, asked or told one thing at a time."""

    def __init__(self, address: str, nodes: Background, steady: Callable[[], float]) -> None:
        self.name = label(address)
        self.answer = RoundAnswer(error="it has not answered yet")
        self.asking: Future[Said[RoundAnswer]] | None = None
        self._telling: Future[Said[Any]] | None = None
        self._complaint = ""
        self._address = address
        self._nodes = nodes
        self._steady = steady

    def ask(self, wanted: dict[str, Any]) -> None:
        """Ask, unless the node is still busy with what it was asked before."""
        if not self._is_busy():
            self.asking = self._nodes.ask(self._address, lambda control: self._round(control, wanted))

    def hear(self) -> bool:
        """Note what it has said; whether it has by now."""
        if self.asking is None or not self.asking.done():
            return False
        asking, self.asking = self.asking, None
        try:
            said = asking.result()
        except Exception as error:
            self.answer = RoundAnswer(error=f"its answer cannot be read: {error!r}", gone=True)
            self.complain()
            return True
        self.answer = said.value or RoundAnswer(error=said.error, gone="no answer" not in said.error)
        return True

    def complain(self) -> None:
        """Log what is wrong with its answer when it is new."""
        if self.answer.error != self._complaint:
            self._complaint = self.answer.error
            log.error("%s: %s", self.name, self.answer.error)

    def tell(self, told: dict[str, Any]) -> None:
        """Hand the node what its meta-subjects say."""
        if not self.answer.error and not self._is_busy():
            self._telling = self._nodes.ask(self._address, lambda control: control.call("figures", told))

    def _is_busy(self) -> bool:
        """Return True if something is on its way; note what could not be told."""
        if self._telling is not None and self._telling.done():
            said, self._telling = self._telling.result(), None
            if said.error:
                log.debug("%s was not told the figures: %s", self.name, said.error)
        return self.asking is not None or self._telling is not None

    def _round(self, control: Control, wanted: dict[str, Any]) -> RoundAnswer:
        began = self._steady()
        samples = control.call("samples", wanted)
        return RoundAnswer((began + self._steady()) / 2, samples, control.stats())


def keep_collecting(addresses: list[str], stop: threading.Event) -> None:
    """Collect until told to stop, in a thread of a process that does other things, too: what fails begins anew."""
    while not stop.is_set():
        try:
            Service(addresses, stop).run()
        except Exception:
            log.exception("the collector failed; starting it again")
            stop.wait(RESTART_SECONDS)
        finally:
            connections.close_all()


class Service:
    """Collects until told to stop."""

    def __init__(self, addresses: list[str], stop: threading.Event, clock: Clock | None = None) -> None:
        clock = clock or Clock()
        self._stop = stop
        self._nodes = Background(addresses, kept=CLIENT)
        self._lines = [NodeLine(address, self._nodes, clock.steady) for address in addresses]
        self._collector = Collector([line.name for line in self._lines], Store(), clock)
        self._windows = ""

    def run(self) -> None:
        """Collect until the event is set."""
        collector = self._collector
        collects = waits = False
        try:
            while not self._stop.is_set():
                if not collects:
                    collects = collector.begin()
                    if not collects:
                        if not waits:
                            log.info("another collector is at work, or the database does not answer: standing by")
                        waits = True
                        self._stop.wait(STANDBY_SECONDS)
                        continue
                    waits, self._windows = False, ""
                collects, more = self.round()
                if not more:
                    self._stop.wait((PHASE_SECONDS - time.monotonic()) % ROUND_SECONDS)
            if collects:
                collector.end()
        except Exception:
            collector.let_go()  # this process goes on, so that nobody would take it for ended
            raise
        finally:
            self._nodes.close()

    def round(self) -> tuple[bool, bool]:
        """Ask all nodes, add what they tell; whether this is still the one that collects, and whether there is more."""
        collector, more = self._collector, False
        for line in self._lines:
            line.ask(collector.timeline.wanted(line.name))
        wait([line.asking for line in self._lines if line.asking is not None], WAIT_SECONDS)
        collector.follow_clock()
        for line in self._lines:
            if not line.hear():
                continue
            if not line.answer.error:
                try:
                    more |= collector.take(line.name, line.answer.samples, line.answer.at) >= ROWS_MAX
                except Exception as error:  # the others' figures count all the same
                    line.answer = RoundAnswer(error=f"its figures cannot be read: {error!r}")
                    line.complain()
                    collector.gone(line.name)  # nothing will come of it that others would have to wait for
            elif line.answer.gone:
                collector.gone(line.name)
        if not collector.close():
            return False, False
        if not more:
            self._tell()
        return True, more

    def _tell(self) -> None:
        """Tell the nodes the figures of all, and the windows if they have changed, for the meta-subjects."""
        windows = json.dumps(self._collector.windows(), separators=(",", ":"))
        nodes = [figures.node(line.name, line.answer.error, line.answer.stats) for line in self._lines]
        answers = [line.answer for line in self._lines]
        told: dict[str, Any] = {
            "fields": figures.cluster((answer.stats, answer.samples.get("shared", False)) for answer in answers),
            "content": figures.content(nodes, int(time.time() * 1000)),
        }
        if windows != self._windows:
            self._windows = told["windows"] = windows
        for line in self._lines:
            line.tell(told)
