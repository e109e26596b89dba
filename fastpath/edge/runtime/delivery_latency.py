"""How long messages take from their acceptance to the sockets: one look at the clock for what comes, one for what goes.

A turn of the loop is measured as a whole: all that leaves at its end counts as long as the first of it has waited. What
a listener collects counts from the moment at which the collecting began. Left out are what conflation brings, which is
meant to be late, what is stored, and what waits in a slow client's own queue.
"""

from __future__ import annotations

from time import monotonic_ns, time_ns

from ...core.broker.broker import Broker
from ...core.telemetry.histogram import Histogram

FAR_NS = 60_000_000_000
"""Nanoseconds by which another machine may have stored a message earlier or later for it to be measured."""


def measure(broker: Broker, *, on: bool) -> DeliveryLatency | None:
    """Measure what goes through the broker from now on; None: nobody wants to know."""
    if not on:
        return None
    latency = DeliveryLatency()
    broker.time_deliveries(latency)
    return latency


class DeliveryLatency:
    """The durations of one process. ``since`` is when the first message of this turn was accepted, in ns of the
    monotonic clock, which all processes of a machine share; 0: none was. ``collected`` counts the deliveries that were
    collected."""

    __slots__ = ("collected", "histogram", "since")

    def __init__(self) -> None:
        self.histogram = Histogram()
        self.since = 0
        self.collected = 0

    def accept(self) -> None:
        """Note that a publication is accepted (Stopwatch)."""
        if not self.since:
            self.since = monotonic_ns()

    def accepted(self, since: int) -> None:
        """Measure what comes next from another local process' mark of its acceptance; 0: do not measure."""
        if since and (not self.since or since < self.since):
            self.since = since

    def accepted_at(self, time: int) -> None:
        """Measure what comes next from the time (ms since 1970) at which it was accepted, perhaps on another machine.

        A time far from now is not measured: a clock has been set.
        """
        age = time_ns() - time * 1_000_000
        if abs(age) < FAR_NS:
            self.accepted(monotonic_ns() - max(0, age))

    def begin(self) -> int:
        """Return since when a listener's first message has been under way, as the listener begins to collect
        (Stopwatch)."""
        return self.since or monotonic_ns()

    def release(self, began: int, deliveries: int) -> None:
        """Count deliveries that were collected since the mark and leave now (Stopwatch)."""
        self.collected += deliveries
        if began:
            self.histogram.add(max(0, monotonic_ns() - began), deliveries)

    def flushed(self, deliveries: int) -> None:
        """Note that the turn is over: so many deliveries have been written that were not collected before."""
        since, self.since = self.since, 0
        if since and deliveries > 0:
            self.histogram.add(max(0, monotonic_ns() - since), deliveries)
