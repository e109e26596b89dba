"""Drives a swarm and its publishers: a window of publications on the way, or a rate; warm-up, measurement, grace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from ..machine.procfs import cpu_ns, memory_bytes
from .payload import Payloads
from .publishing import LoadPublisher
from .sockets import BenchError
from .swarm import Swarm

SETTLE_SECONDS = 0.3
BARRIER_SECONDS_MAX = 30
ROOM_SECONDS_MAX = 30
GRACE_SECONDS = 5.0
"""Seconds without a delivery after which what is missing counts as lost."""

REFILL_MAX = 4096
"""Publications in one refill of the window: what is published at once must stay much less than the window."""

CONFLATED_SECONDS = 2.0
"""Seconds after which what is conflated has come: more than any interval that is measured."""

TICK_SECONDS = 1.0

Progress = Callable[["Load"], None]


@dataclass(frozen=True)
class Measured:
    """The figures of the measured window, and what was missing when all had been given time."""

    duration_s: float
    deliveries: int
    published: int
    cpu_s: float
    memory_bytes: int
    load_cpu_s: float
    """CPU seconds of the generator itself."""
    bytes_in: int
    lost: int
    """Over the whole load, the warm-up included."""


class Load:
    """A connected swarm, and who publishes to it; ``pids`` are the server's processes.

    ``outlets`` share the subjects: subject s is published by outlet s modulo their number.
    """

    def __init__(
        self,
        swarm: Swarm,
        outlets: Sequence[LoadPublisher],
        subjects: int,
        size: int,
        pids: Sequence[int],
        progress: Progress | None = None,
    ) -> None:
        self.swarm = swarm
        self.outlets = outlets
        self.subjects = subjects
        self.pids = pids
        self.payloads = Payloads(size, subjects)
        self.names = [swarm.dialect.subject(index) for index in range(subjects)]
        self.subscribers = [0] * subjects
        for subjects_of_one in swarm.plan:
            for subject in subjects_of_one:
                self.subscribers[subject] += 1
        self.expected = 0
        self.published = 0
        self._progress = progress
        self._tick_at = time.monotonic() + TICK_SECONDS
        self._next = 0
        self.memory_peak: int | None = None
        """Set to 0, the greatest memory of the server that was seen since, once a second."""
        self.conflated = False
        """True if what comes does not follow from what is published; then only the newest message must come."""

    # Publishing

    def publish(self, subjects: Sequence[int], sent_ns: Sequence[int] | None = None) -> None:
        """Publish once on each of these subjects, in as few writes as there are outlets; ``sent_ns`` says when each was
        due, if that is not now."""
        moments: Iterable[int] = repeat(time.monotonic_ns()) if sent_ns is None else sent_ns
        make, names, subscribers = self.payloads.make, self.names, self.subscribers
        items = [(names[s], make(s, moment)) for s, moment in zip(subjects, moments, strict=False)]
        if len(self.outlets) == 1:
            self.outlets[0].publish(items)
        else:
            parts: dict[int, list[tuple[str, bytes]]] = {}
            for s, item in zip(subjects, items, strict=True):
                parts.setdefault(s % len(self.outlets), []).append(item)
            for outlet, some in parts.items():
                self.outlets[outlet].publish(some)
        self.published += len(subjects)
        self.expected += sum([subscribers[s] for s in subjects])

    def barrier(self, *, exact: bool = True) -> None:
        """Publish on every subject until one round arrives everywhere: all is connected. Raises BenchError.

        Not ``exact`` for conflated clients, which may be sent less in their first interval.
        """
        self.turn(SETTLE_SECONDS)
        end = time.monotonic() + BARRIER_SECONDS_MAX
        while True:
            self.expected = self.swarm.delivered = 0
            for at in range(0, self.subjects, 1000):
                self.when_room()
                self.publish(range(at, min(at + 1000, self.subjects)))
            self._await_all(GRACE_SECONDS)
            if self.swarm.delivered >= self.expected or (not exact and self.swarm.delivered):
                self.swarm.delivered = self.expected
                return
            if time.monotonic() > end:
                came = f"{self.swarm.delivered} of {self.expected} deliveries of the first round came"
                raise BenchError(f"{came}: is it the right server?")

    def window(self, size: float, warmup_s: float, duration_s: float) -> Measured:
        """Keep ``size`` publications on the way; one is done when all its deliveries came (lg.c's method)."""
        swarm, subjects, subscribers = self.swarm, self.subjects, self.subscribers
        bound = size * sum(subscribers) / subjects + 0.5
        outlets = self.outlets
        single = outlets[0] if len(outlets) == 1 else None

        def step() -> None:
            free = bound - (self.expected - swarm.delivered)
            s = self._next
            if subscribers[s] <= free and (single is None or single.room):
                chosen: list[int] = []
                while subscribers[s] <= free and len(chosen) < REFILL_MAX:
                    chosen.append(s)
                    free -= subscribers[s]
                    s = s + 1 if s + 1 < subjects else 0
                self._next = s
                self.publish(chosen)
            if single is not None:
                if single.blocked:
                    single.flush()
                    swarm.poll(0)
                    return
            else:
                for outlet in outlets:
                    if outlet.blocked:
                        outlet.flush()
            swarm.poll(0.01)

        return self._measure(step, warmup_s, duration_s)

    def batches(self, size: int, in_flight: int, warmup_s: float, duration_s: float) -> Measured:
        """Publish ``size`` messages at a time through one outlet, on one subject after the other, as fast as they are
        acknowledged and delivered; at most ``in_flight`` such batches are on the way to the subscribers."""
        swarm, subjects, (outlet,) = self.swarm, self.subjects, self.outlets
        bound = (in_flight - 1) * size * sum(self.subscribers) / subjects

        def step() -> None:
            for _ in range(in_flight):
                if not outlet.room or self.expected - swarm.delivered > bound:
                    break
                self.publish([(self._next + at) % subjects for at in range(size)])
                self._next = (self._next + size) % subjects
            outlet.flush()
            swarm.poll(0.01)

        return self._measure(step, warmup_s, duration_s)

    def rate(self, per_second: float, warmup_s: float, duration_s: float, *, burst: bool = False) -> Measured:
        """Publish every subject ``per_second`` times a second, spread evenly, or all at once with ``burst``."""
        return self._measure(self.pace(per_second, burst=burst), warmup_s, duration_s)

    def pace(self, per_second: float, *, burst: bool = False) -> Callable[[], None]:
        """Return what ``turn`` is to do over and over to publish at a rate, from now on.

        Latency counts from the moment at which a message was due, not from when the generator got to it.
        """
        subjects, swarm = self.subjects, self.swarm
        at_once = subjects if burst else 1
        interval_ns = int(1e9 * at_once / (per_second * subjects))
        due_ns = time.monotonic_ns() + interval_ns

        def step() -> None:
            nonlocal due_ns
            due: list[int] = []
            moments: list[int] = []
            moment = time.monotonic_ns()
            while due_ns <= moment and len(due) < REFILL_MAX:
                for _ in range(at_once):
                    due.append(self._next)
                    moments.append(due_ns)
                    self._next = (self._next + 1) % subjects
                due_ns += interval_ns
            if due:
                self.when_room()
                self.publish(due, moments)
            self._flush()
            swarm.poll(max(0.0, min(0.02, (due_ns - time.monotonic_ns()) / 1e9)))

        return step

    # Time

    def turn(self, seconds: float, step: Callable[[], None] | None = None) -> None:
        """Go on for some time, publishing nothing if ``step`` is not given."""
        end = time.monotonic() + seconds
        while (moment := time.monotonic()) < end:
            if step is None:
                self._flush()
                self.swarm.poll(min(0.05, end - moment))
            else:
                step()
            if moment >= self._tick_at:
                self._tick(moment)

    def _measure(self, step: Callable[[], None], warmup_s: float, duration_s: float) -> Measured:
        swarm = self.swarm
        self.turn(warmup_s, step)
        swarm.tally.latency.clear()
        swarm.tally.measuring = True
        cpu, begin = cpu_ns(self.pids), time.monotonic()
        deliveries, published, bytes_in, own = swarm.delivered, self.published, swarm.bytes, time.process_time()
        self.turn(duration_s, step)
        cpu, elapsed = cpu_ns(self.pids) - cpu, time.monotonic() - begin
        own, bytes_in = time.process_time() - own, swarm.bytes - bytes_in
        deliveries, published = swarm.delivered - deliveries, self.published - published
        swarm.tally.measuring = False
        memory = memory_bytes(self.pids)
        if self.conflated:
            self.turn(CONFLATED_SECONDS)
            lost = self._outdated()
        else:
            self._await_all(GRACE_SECONDS)
            lost = max(0, self.expected - swarm.delivered)
        return Measured(elapsed, deliveries, published, cpu / 1e9, memory, own, bytes_in, lost)

    def _outdated(self) -> int:
        """Return how many subjects of sampled connections, which are conflated, have a newest message that has not
        come."""
        numbers = self.payloads.numbers
        return sum(
            track.newest(subject) != numbers[subject]
            for index, track in self.swarm.tracks.items()
            for subject in self.swarm.plan[index]
        )

    def _await_all(self, grace_s: float) -> None:
        delivered, last = self.swarm.delivered, time.monotonic()
        while self.swarm.delivered < self.expected and time.monotonic() - last < grace_s:
            self._flush()
            self.swarm.poll(0.02)
            if self.swarm.delivered != delivered:
                delivered, last = self.swarm.delivered, time.monotonic()

    def when_room(self) -> None:
        """Wait until every publisher may publish; raises BenchError when the server takes nothing."""
        end = time.monotonic() + ROOM_SECONDS_MAX
        while not all(outlet.room for outlet in self.outlets):
            self._flush()
            self.swarm.poll(0.01)
            if time.monotonic() > end:
                raise BenchError(f"the server took no publications for {ROOM_SECONDS_MAX} s")

    def _flush(self) -> None:
        for outlet in self.outlets:
            outlet.flush()

    def _tick(self, moment: float) -> None:
        self._tick_at = moment + TICK_SECONDS
        self.swarm.show_life()
        if self.memory_peak is not None:
            self.memory_peak = max(self.memory_peak, memory_bytes(self.pids))
        if self._progress is not None:
            self._progress(self)

    def close(self) -> None:
        """Close all connections."""
        for outlet in self.outlets:
            outlet.close()
        self.swarm.close()
