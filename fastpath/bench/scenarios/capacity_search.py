"""The greatest load that a server holds, by doubling and bisection, and how many machines a number of users needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

P99_MS_MAX = 15.0
"""The default bound: what the spread scenario has to keep."""


@dataclass(frozen=True)
class Probe:
    """The figures of one measurement at one load."""

    load: float
    p99_ms: float
    lost: int
    deliveries_per_s: float
    expected_per_s: float

    def fault(self, p99_ms_max: float) -> str:
        """Return why this load is too much, in a few words; empty if it holds."""
        if self.lost:
            return f"{self.lost} messages lost"
        if self.deliveries_per_s < 0.95 * self.expected_per_s:
            return f"only {self.deliveries_per_s:,.0f} of {self.expected_per_s:,.0f} deliveries/s came"
        if not self.p99_ms <= p99_ms_max:
            return f"p99 {self.p99_ms:.1f} ms"
        return ""


@dataclass
class Search:
    """The outcome: ``held`` is the greatest load that held, ``failed`` the least that did not; each may be None."""

    held: Probe | None = None
    failed: Probe | None = None
    why: str = ""
    """Reason why ``failed`` did; empty when the search ended at the greatest load allowed."""
    probes: list[Probe] = field(default_factory=list)


def search(
    measure: Callable[[float], Probe],
    start: float,
    most: float,
    *,
    p99_ms_max: float = P99_MS_MAX,
    precision: float = 0.1,
    probes_max: int = 16,
) -> Search:
    """Double the load from ``start`` until it fails or is ``most``, then halve the gap down to ``precision``.

    A load that fails is measured once more before it counts as failed, since a busy moment of the machine is not the
    server's. If ``start`` itself fails, the load is halved until one holds. At most ``probes_max`` measurements.
    """
    found = Search()

    def holds(load: float) -> bool:
        for _ in range(2):
            probe = measure(load)
            found.probes.append(probe)
            why = probe.fault(p99_ms_max)
            if not why:
                if found.held is None or probe.load > found.held.load:
                    found.held = probe
                return True
            if len(found.probes) >= probes_max:
                break
        if found.failed is None or probe.load < found.failed.load:
            found.failed, found.why = probe, why
        return False

    load = min(start, most)
    while len(found.probes) < probes_max:
        if holds(load):
            if load >= most:
                break
        elif load < 1:
            break
        held = found.held.load if found.held else 0.0
        failed = found.failed.load if found.failed else math.inf
        if failed <= held * (1 + precision):
            break
        load = min(most, held * 2) if math.isinf(failed) else (held + failed) / 2
    return found


@dataclass(frozen=True)
class Plan:
    """The figures that the estimate rests on, and its outcome; ``headroom`` is the part of a core that stays free."""

    users: int
    rate: float
    deliveries_per_core_s: float
    connections_per_core_max: int
    cores: int
    headroom: float
    bytes_per_connection: float
    memory_bytes: float

    @property
    def by_cpu(self) -> float:
        """Machines for the deliveries."""
        return self.users * self.rate / (self.deliveries_per_core_s * self.cores * (1 - self.headroom))

    @property
    def by_files(self) -> float:
        """Machines for the connections that a worker, one a core, may open."""
        return self.users / (self.connections_per_core_max * self.cores)

    @property
    def by_memory(self) -> float:
        """Machines for the connections' memory, the same part of it left free."""
        return self.users * self.bytes_per_connection / (self.memory_bytes * (1 - self.headroom))

    @property
    def machines(self) -> int:
        """The greatest of the three, rounded up; at least one."""
        return max(1, math.ceil(max(self.by_cpu, self.by_files, self.by_memory)))

    @property
    def bound(self) -> str:
        """The name of the one of the three needs that decides."""
        needs = {"CPU": self.by_cpu, "open files": self.by_files, "memory": self.by_memory}
        return max(needs, key=needs.__getitem__)


KERNEL_BYTES_PER_CONNECTION = 4.9 * 1024
"""Bytes that the kernel keeps for one end of a quiet TCP connection, beside the server's own memory."""


def lines(plan: Plan) -> list[str]:
    """Return the estimate and everything that it assumes, as text."""
    count = f"{plan.machines:,} machine{'s' if plan.machines != 1 else ''}"
    return [
        f"{plan.users:,} users with {plan.rate:g} messages/s each need {count}; what decides is {plan.bound}:",
        f"  by CPU {plan.by_cpu:.2f}, by open files {plan.by_files:.2f}, by memory {plan.by_memory:.2f}.",
        "Assumed:",
        f"  {plan.deliveries_per_core_s:,.0f} deliveries/s a core, as measured above on one core;",
        f"  {plan.cores} cores a machine, one worker each, all of them alike (--cores);",
        f"  {plan.headroom:.0%} of CPU and memory stay free (--headroom);",
        f"  {plan.bytes_per_connection / 1024:.1f} KiB a connection, the kernel's part included;",
        f"  {plan.memory_bytes / 2**30:.1f} GiB of memory a machine (--memory-gib);",
        f"  {plan.connections_per_core_max:,} open files a worker, this machine's limit.",
        "Not in it: the load generator was on this machine and shared its caches, which makes the server look",
        "slower; the loopback has no network card, no loss and no distance, which makes it look faster. Bursts, TLS,",
        "other messages and reconnection storms are not in it either. Measure on the machine that you will use.",
    ]
