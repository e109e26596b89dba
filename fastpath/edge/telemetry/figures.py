"""Figures of the sidecar, over all workers, and their publication on the meta-subject each second (features.md F1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

from ...core.protocol.messages import STANDARD, Message
from ...core.telemetry.counters import ENDS, FAILURES, LOST_WITH_WORKERS, REFUSALS
from ...core.telemetry.figures import COUNTER, FIGURES, MOST, SUM, UNKNOWN
from ...core.telemetry.histogram import BUCKETS, Histogram, quantile_ms, since
from ..clients.quotas import limited, resident_bytes
from ..node import messages
from ..runtime.component import Answer, Offers
from ..runtime.loop_lag import waited_seconds
from ..runtime.runtime import Runtime, now
from ..runtime.scatter import Work

SUBJECT = "/__sys__/stats"
"""Read by the ordinary rights; each figure is a field."""

_RATES = {
    "connections_per_s": "connects",
    "disconnections_per_s": "disconnects",
    "messages_in_per_s": "messages_in",
    "messages_out_per_s": "messages_out",
    "bytes_in_per_s": "bytes_in",
    "bytes_out_per_s": "bytes_out",
}
"""Figures that are differences of counters, per second."""

_COUNTED = (
    *_RATES.values(),
    "cache_hits",
    "cache_misses",
    "recoveries",
    "resynchronisations",
    "publications_refused",
    "conflated_away",
)
"""Counters that are figures as they are."""

_QUANTILES = {"latency_p50_ms": 0.5, "latency_p99_ms": 0.99}

_FRESH_SECONDS = 3.0
"""Seconds after which what a worker told is not of the last second: the worker hangs."""

_WEIGHED_AT_ONCE = 500
"""Queues of slow clients that are added up between two interruptions."""


class Statistics:
    """Samples the counters of this process once a second, and hands them to ``report`` on a worker that follows the
    first one; without it they are published as a message."""

    def __init__(
        self, runtime: Runtime, worker: int = 0, report: Callable[[dict[str, float]], None] | None = None
    ) -> None:
        self._runtime = runtime
        self._worker = worker
        self._report = report
        self.each_second: list[Callable[[], None]] = []
        """Functions that are called before the figures are sampled."""
        self.latencies = Latencies(runtime)
        self.offers = Offers(verbs={"stats": lambda peer, arguments: self._tell()})
        self._started = self._sampled = time.monotonic()
        self._cpu, self._waited = time.process_time(), waited_seconds()
        self._last = self._totals()
        self._rates: dict[str, float] = dict.fromkeys((*_RATES, "cpu_percent", "cpu_waited_percent"), 0)
        self._lost_with_workers = self._lost_per_s = 0.0
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Tell what there is, now and each second. Where the operator wants no statistics, others than the first worker
        do all the same, as bounds and answers need it; nothing is sampled then."""
        if self._runtime.settings.statistics or self._report is not None:
            self._tick()

    def stop(self) -> None:
        """Stop sampling; tell the first worker how it has ended."""
        if self._timer is not None:
            self._timer.cancel()
            if self._report is not None:
                self._report(self.own())

    def figures(self, each: list[dict[str, float]] | None = None) -> dict[str, float]:
        """Return every figure by its name, over all workers (``by_worker``); rates are over the last second."""
        own, *others = each or self.by_worker()
        figures = dict(own)
        del figures["worker"], figures["pid"]
        for name in figures:
            figure = FIGURES.get(name, UNKNOWN)
            if figure.across_workers == SUM:
                figures[name] += sum(other.get(name, 0) for other in others)
                if figure.kind == COUNTER:
                    figures[name] += self._runtime.workers.gone.get(name, 0)
            elif figure.across_workers == MOST:
                figures[name] = max(figures[name], *(other.get(name, 0) for other in others), 0)
        figures["workers"] = 1 + len(others)
        figures["disconnections_per_s"] += self._lost_per_s
        return figures | (self.latencies.of_all if others else {})

    def by_worker(self) -> list[dict[str, float]]:
        """Return the figures of each worker, the first one first."""
        return [self.own(), *sorted(self._runtime.workers.figures(), key=lambda other: other["worker"])]

    def _tell(self) -> dict[str, Any]:
        """Answer the verb: all figures, and those of each worker."""
        each = self.by_worker()
        return {**self.figures(each), "by_worker": each}

    def own(self) -> dict[str, float]:
        """Return the figures of this process."""
        runtime, broker = self._runtime, self._runtime.broker
        counters = broker.counters
        return {
            "worker": self._worker,
            "pid": os.getpid(),
            "connections": len(runtime.sessions.clients),
            **self._rates,
            **{name: getattr(counters, name) for name in _COUNTED},
            **_named("disconnects", ENDS, counters.ends),
            "connections_refused": counters.connections_refused,
            **_named("publications_refused", REFUSALS, counters.refusals),
            "publications_failed": sum(counters.failures.values()),
            **_named("publications_failed", FAILURES, counters.failures),
            "publishers": len(runtime.publisher_connections),
            "subjects": len(broker.interest.topics),
            "subscriptions": counters.subscriptions,
            "waiting_subscriptions": counters.waiting,
            "cached_messages": broker.history.messages,
            "cached_bytes": broker.history.bytes,
            "evicted_by_count": broker.history.evicted_by_count,
            "evicted_by_age": broker.history.evicted_by_age,
            "evicted_by_memory": broker.history.evicted_by_memory,
            "slow_clients": len(runtime.blocked),
            "queued_bytes": self._queued_bytes if runtime.blocked else 0,
            "slow_closed": counters.closes.get("slow_consumer", 0),
            "slow_conflated": counters.lags,
            **self.latencies.of_own,
            "loop_lag_ms": runtime.loop_lag.longest_ms,
            "audit_dropped": 0,  # until the audit begins
            "spans_exported": 0,  # where tracing is off
            "spans_dropped": 0,
            "memory_bytes": resident_bytes(),
            "cpu_seconds": round(time.process_time(), 3),
            "cpu_waited_seconds": round(waited_seconds(), 3),
            "uptime_s": round(time.monotonic() - self._started, 1),
            "silent_s": 0,
            **limited(counters),
            **{name: value for more in runtime.figures for name, value in more().items()},
        }

    def _totals(self) -> dict[str, int]:
        counters = self._runtime.broker.counters
        return {rate: getattr(counters, total) for rate, total in _RATES.items()}

    def _tick(self) -> None:
        moment = time.monotonic()
        # On the whole seconds of a clock that all workers share, so that what they tell is of the same second.
        wait = 1 - moment % 1
        self._timer = self._runtime.loop.call_later(wait if wait > 0.5 else wait + 1, self._tick)
        if self._runtime.settings.statistics:
            self._sample(moment)
        if self._report is not None:
            self._report(self.own())
        else:
            self._publish()

    def _sample(self, moment: float) -> None:
        cpu, waited, totals = time.process_time(), waited_seconds(), self._totals()
        seconds = max(moment - self._sampled, 0.001)
        self._rates = {name: round((total - self._last[name]) / seconds, 1) for name, total in totals.items()}
        self._rates["cpu_percent"] = round(100 * (cpu - self._cpu) / seconds, 1)
        self._rates["cpu_waited_percent"] = round(100 * (waited - self._waited) / seconds, 1)
        lost = self._runtime.workers.gone.get(LOST_WITH_WORKERS, 0)
        self._lost_per_s = round((lost - self._lost_with_workers) / seconds, 1)
        self._sampled, self._cpu, self._waited = moment, cpu, waited
        self._last, self._lost_with_workers = totals, lost
        self.latencies.sample()
        for task in self.each_second:
            task()
        if self._runtime.blocked:
            self._runtime.scatter.run(self._weigh(), self._weighed)

    def _weigh(self) -> Work:
        """Weigh what waits for slow clients: there may be many of them."""
        total = 0
        for index, client in enumerate(list(self._runtime.blocked)):
            if client.queue is not None:
                total += client.queue.size
            if index % _WEIGHED_AT_ONCE == 0:
                yield
        return {"bytes": total}

    def _weighed(self, answer: Answer) -> None:
        self._queued_bytes = answer.get("bytes", 0)

    def _publish(self) -> None:
        """Publish all figures as one message, each a field."""
        fields: dict[str, str | bytes] = {
            name: f"{value:g}" if value < 1e6 else str(round(value)) for name, value in self.figures().items()
        }
        self._runtime.broker.publish_own(Message(SUBJECT, "", fields, qos=STANDARD), now())
        self._runtime.end()


class Latencies:
    """The latencies (edge/runtime/delivery_latency.py) of the last second, and on the first worker those of all
    workers together, each of which tells its histogram once a second."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._own = runtime.latency.histogram if runtime.latency is not None else Histogram()
        self._before = list(self._own.counts)
        self._others: dict[int, tuple[list[int], int]] = {}
        self._gone = Histogram()
        self._last: dict[int, tuple[list[int], float]] = {}
        """Counts of each worker between the last two times that it told, and when (s, monotonic) it did: what workers
        tell of a second comes just before or just after this process looks at its own."""
        self.of_own: dict[str, float] = dict.fromkeys(_QUANTILES, 0)
        """Quantiles of the last second by the figures' names; 0 when nothing was delivered."""
        self.offers = Offers(messages={messages.Latency: self._told}, parted=self._parted)

    @property
    def of_all(self) -> dict[str, float]:
        """Figures of all workers together."""
        oldest = time.monotonic() - _FRESH_SECONDS
        fresh = [counts for counts, moment in self._last.values() if moment > oldest]
        return _quantiles([sum(counts) for counts in zip(*fresh, strict=True)] or [0] * BUCKETS)

    def total(self) -> Histogram:
        """Return what all workers have counted, those that are no more included."""
        total = Histogram()
        for counts, sum_ns in ((self._own.counts, self._own.sum_ns), *self._others.values()):
            total.merge(counts, sum_ns)
        total.merge(self._gone.counts, self._gone.sum_ns)
        return total

    def sample(self) -> None:
        """Take a sample at the end of a second."""
        counts = self._own.counts
        last, self._before = since(counts, self._before), list(counts)
        self._last[0] = last, time.monotonic()
        self.of_own = _quantiles(last)
        if self._runtime.workers.follows:
            self._runtime.workers.to_first(messages.Latency(counts, self._own.sum_ns))

    def _told(self, worker: int, told: messages.Latency) -> None:
        counts, sum_ns = told.counts, told.sum_ns
        before = self._others.get(worker)
        if before is not None:
            self._last[worker] = since(counts, before[0]), time.monotonic()
        self._others[worker] = counts, sum_ns

    def _parted(self, worker: int) -> None:
        self._last.pop(worker, None)
        if worker in self._others:
            self._gone.merge(*self._others.pop(worker))


def _quantiles(counts: list[int]) -> dict[str, float]:
    return {name: round(quantile_ms(counts, share), 3) for name, share in _QUANTILES.items()}


def _named(prefix: str, names: tuple[str, ...], counts: dict[str, int]) -> dict[str, float]:
    return {f"{prefix}_{name}": counts.get(name, 0) for name in names}
