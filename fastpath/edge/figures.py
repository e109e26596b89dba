"""Figures of the sidecar, over all its workers, and their publication on the meta-subject each second (FEATURES F1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from ..core.messages import STANDARD, Message
from .hub import Hub, now
from .limiting import LIMITS, limited, resident_bytes

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


TOTALS = (
    "recoveries",
    "resynchronisations",
    "cache_hits",
    "cache_misses",
    "publications_refused",
    "conflated_away",
    "slow_closed",
    "slow_conflated",
    "audit_dropped",
    *(f"limited_{name}" for name in LIMITS),
)
"""Figures that count from the start on: they must not fall when a worker is restarted."""

_SUMMED = frozenset(
    (
        *TOTALS,
        *(set(_RATES) - {"messages_in_per_s"}),
        "connections",
        "publishers",
        "subscriptions",
        "waiting_subscriptions",
        "cpu_percent",
        "memory_bytes",
    )
)
"""What is added up over all workers; of the rest (what is published and cached, since when) the first one's counts."""


class Statistics:
    """Samples the counters of this process once a second, and hands them to ``publish``, by default as a message."""

    def __init__(self, hub: Hub, worker: int = 0, publish: Callable[[dict[str, float]], None] | None = None) -> None:
        self._hub = hub
        self._worker = worker
        self._publish = publish or self._to_subject
        self.others: Callable[[], list[dict[str, float]]] = list
        """What the other workers told last, for the first one."""
        self.gone: Mapping[str, float] = {}
        """What workers that are no more had counted."""
        self.engine: Callable[[], dict[str, float]] = dict
        """What the engine of this process adds."""
        self._started = self._sampled = time.monotonic()
        self._cpu = time.process_time()
        self._last = self._totals()
        self._rates: dict[str, float] = dict.fromkeys((*_RATES, "cpu_percent"), 0)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Publish the first sample, and one each second."""
        self._tick()

    def stop(self) -> None:
        """No more samples."""
        if self._timer is not None:
            self._timer.cancel()

    def figures(self, each: list[dict[str, float]] | None = None) -> dict[str, float]:
        """Every figure by its name, over all workers (``by_worker``); rates are over the last second."""
        own, *others = each or self.by_worker()
        figures = dict(own)
        for name in _SUMMED:
            figures[name] += sum(other.get(name, 0) for other in others)
        for name in TOTALS:
            figures[name] += self.gone.get(name, 0)
        figures["workers"] = 1 + len(others)
        del figures["worker"], figures["pid"]
        return figures

    def by_worker(self) -> list[dict[str, float]]:
        """The figures of each worker, the first one first."""
        return [self.own(), *sorted(self.others(), key=lambda other: other["worker"])]

    def own(self) -> dict[str, float]:
        """Those of this process."""
        hub, broker = self._hub, self._hub.broker
        counters = broker.counters
        return {
            "worker": self._worker,
            "pid": os.getpid(),
            "connections": len(hub.sessions.clients),
            **self._rates,
            "publishers": len(hub.publisher_connections),
            "subjects": len(broker.interest.topics),
            "subscriptions": counters.subscriptions,
            "waiting_subscriptions": counters.waiting,
            "cached_messages": broker.history.messages,
            "cached_bytes": broker.history.bytes,
            "cache_hits": counters.cache_hits,
            "cache_misses": counters.cache_misses,
            "evicted_by_count": broker.history.evicted_by_count,
            "evicted_by_age": broker.history.evicted_by_age,
            "evicted_by_memory": broker.history.evicted_by_memory,
            "recoveries": counters.recoveries,
            "resynchronisations": counters.resynchronisations,
            "publications_refused": counters.publications_refused,
            "conflated_away": counters.conflated_away,
            "slow_closed": counters.closes.get("slow_consumer", 0),
            "slow_conflated": counters.lags,
            "audit_dropped": hub.audit.dropped if hub.audit is not None else 0,
            "memory_bytes": resident_bytes(),
            "uptime_s": round(time.monotonic() - self._started, 1),
            **limited(counters),
            **self.engine(),
            **(hub.asks.figures() if hub.asks is not None else {}),
            **{name: value for more in hub.figures for name, value in more().items()},
        }

    def _totals(self) -> dict[str, int]:
        counters = self._hub.broker.counters
        return {rate: getattr(counters, total) for rate, total in _RATES.items()}

    def _tick(self) -> None:
        self._timer = self._hub.loop.call_later(1, self._tick)
        moment, cpu, totals = time.monotonic(), time.process_time(), self._totals()
        seconds = max(moment - self._sampled, 0.001)
        self._rates = {name: round((total - self._last[name]) / seconds, 1) for name, total in totals.items()}
        self._rates["cpu_percent"] = round(100 * (cpu - self._cpu) / seconds, 1)
        self._sampled, self._cpu, self._last = moment, cpu, totals
        self._publish(self.own())

    def _to_subject(self, own: dict[str, float]) -> None:
        """All figures as one message, each a field."""
        del own
        fields: dict[str, str | bytes] = {
            name: f"{value:g}" if value < 1e6 else str(round(value)) for name, value in self.figures().items()
        }
        self._hub.broker.publish_own(Message(SUBJECT, "", fields, qos=STANDARD), now())
        self._hub.end()
