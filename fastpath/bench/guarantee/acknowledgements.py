"""How long an acknowledgement takes and how many come a second: in memory, with the journal, and through Redis."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..load.latency import LatencyHistogram
from ..load.publishing import PortLoadPublisher
from ..machine.procfs import cpu_ns
from ..scenarios.measure import RunOptions
from ..scenarios.scenarios import Scenario
from ..servers.redis_servers import RedisServers, missing, redis_servers
from .cost import Rig, Say, in_turn, live, rigs

RATE_PER_S = 500
BATCH = 100
ROUNDS = 3
SLICE_SECONDS = 2.0
WARMUP_SECONDS = 0.3

SCENARIO = Scenario("acks", "", 1, BATCH, "all")
"""One subscriber reads everything in full, so that a message that is acknowledged and not delivered is seen."""

WITHOUT_REDIS: dict[str, dict[str, str]] = {
    "memory": {},
    "interval": {"journal": "interval"},
    "batch": {"journal": "batch"},
}
WITH_REDIS: dict[str, tuple[int, int]] = {"redis": (0, 0), "redis1": (1, 0), "redis2": (2, 3)}
"""Numbers of replicas and Sentinels, by the name of the server."""

CLUSTER = "redis2"


@dataclass
class Acks:
    """The figures of one server, over all rounds."""

    rig: Rig
    redis: RedisServers | None
    outlet: PortLoadPublisher
    calm: LatencyHistogram = field(default_factory=LatencyHistogram)
    full: LatencyHistogram = field(default_factory=LatencyHistogram)
    published: int = 0
    acknowledged: int = 0
    seconds: float = 0
    lost: int = 0
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def pids(self) -> dict[str, list[int]]:
        """The processes by what they do."""
        return {"node": self.rig.server.pids} | (self.redis.pids if self.redis else {})

    def at_rate(self, seconds: float) -> None:
        """Publish one message at a time, at a rate."""
        load, per_subject = self.rig.load, RATE_PER_S / SCENARIO.subjects
        load.rate(per_subject, 0, WARMUP_SECONDS)
        self.outlet.latency.clear()
        self.lost += load.rate(per_subject, 0, seconds).lost
        _merge(self.calm, self.outlet.latency)

    def at_most(self, seconds: float) -> None:
        """Publish batches, as many as the server allows to be on the way."""
        load, window = self.rig.load, self.outlet.window
        load.batches(BATCH, window, 0, WARMUP_SECONDS)
        self.outlet.latency.clear()
        before = {name: cpu_ns(pids) for name, pids in self.pids.items()}
        published, acknowledged = load.published, self.outlet.acknowledged
        measured = load.batches(BATCH, window, 0, seconds)
        for name, pids in self.pids.items():
            self.cpu[name] = self.cpu.get(name, 0.0) + (cpu_ns(pids) - before[name]) / 1e9
        self.cpu["generator"] = self.cpu.get("generator", 0.0) + measured.load_cpu_s
        self.published += load.published - published
        self.acknowledged += self.outlet.acknowledged - acknowledged
        self.seconds += measured.duration_s
        self.lost += measured.lost
        _merge(self.full, self.outlet.latency)

    def figures(self) -> dict[str, Any]:
        """Return latencies in ms, CPU time in microseconds for a message."""
        calm, full = self.calm.summary(), self.full.summary()
        return {
            "p50_ms": calm["p50_ms"],
            "p99_ms": calm["p99_ms"],
            "full_per_s": round(self.acknowledged / self.seconds, 1),
            "full_p50_ms": full["p50_ms"],
            "full_p99_ms": full["p99_ms"],
            "cpu_us": {name: round(spent * 1e6 / max(1, self.published), 2) for name, spent in self.cpu.items()},
            "window": self.outlet.window,
            "lost": self.lost,
            "faults": self.rig.faults(),
        }


@contextlib.contextmanager
def servers_of(names: list[str], options: RunOptions) -> Iterator[dict[str, Acks]]:
    """Yield the named servers with all that belongs to them, at the same time; nothing is pinned."""
    free = RunOptions(form=options.form, sample_every=1, settings=options.settings)
    with contextlib.ExitStack() as stack:
        redis = {name: stack.enter_context(redis_servers(*WITH_REDIS[name])) for name in names if name in WITH_REDIS}
        settings = {name: {"engine": redis[name].url} if name in redis else WITHOUT_REDIS[name] for name in names}
        found = {}
        for name, rig in stack.enter_context(rigs(settings, SCENARIO, free)).items():
            (outlet,) = rig.load.outlets
            assert isinstance(outlet, PortLoadPublisher)
            found[name] = Acks(rig, redis.get(name), outlet)
        yield found


def measure(options: RunOptions, say: Say, scale: float = 1.0) -> dict[str, Any]:
    """Measure all servers in turn; those with Redis are left out where there is none, which is said."""
    names = [*WITHOUT_REDIS, *WITH_REDIS]
    if why := missing():
        say(f"without Redis: {why}")
        names = list(WITHOUT_REDIS)
    with servers_of(names, options) as found:
        rounds(found, say, "acknowledgements", max(1, round(ROUNDS * scale)), SLICE_SECONDS * scale)
        return {"servers": {name: one.figures() for name, one in found.items()}, "rate_per_s": RATE_PER_S}


def rounds(found: dict[str, Acks], say: Say, what: str, count: int, seconds: float) -> None:
    """Measure each server for moments in turn, at the rate and then at its most."""
    everybody = {name: one.rig for name, one in found.items()}
    for number in range(count):
        for name in in_turn(list(found), number):
            found[name].at_rate(seconds)
            found[name].at_most(seconds)
            live(everybody, 2 * seconds)
        say(f"{what}: round {number + 1} of {count}")


def _merge(into: LatencyHistogram, latency: LatencyHistogram) -> None:
    into.merge(latency.items(), latency.max_us)
