"""What watches the sidecar from outside: ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP (docs/ports.md)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import cast

from ..core.upgrade import BadRequest, parse_request
from ..engine.memory import MemoryEngine
from .figures import TOTALS, Statistics
from .hub import Hub

WATCHERS_MAX = 64
"""Connections of this port at once; more are closed."""

_COUNTERS = frozenset(
    (
        *TOTALS,
        "evicted_by_count",
        "evicted_by_age",
        "evicted_by_memory",
        "hook_asked",
        "hook_late",
        "hook_untold",
        "journal_failed_writes",
        "journal_damaged",
        "redis_batches",
        "redis_retries",
        "redis_groups_mended",
        "roster_left_out",
    )
)
"""Figures that count from the start on; all others are gauges."""

_JSON = "application/json"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

log = logging.getLogger("fastpath.metrics")


class Health:
    """Whether clients should be sent to this node: what a load balancer asks."""

    def __init__(self, hub: Hub, statistics: Statistics, draining: Callable[[], bool]) -> None:
        self.hub = hub
        self.watchers = 0
        self._statistics = statistics
        self._draining = draining

    def reasons(self) -> dict[str, str]:
        """What stands against it, by name; empty when it is ready."""
        hub, found = self.hub, {}
        if not hub.started:
            found["starting"] = "it restores its state, or waits for Redis"
        elif not hub.broker.grants.ready:
            found["rights"] = "they have not arrived from Django yet"
        if hub.stale:
            notice = hub.sessions.notice
            found["engine"] = notice.text if notice is not None else "who numbers messages is away"
        engine = hub.broker.engine
        if isinstance(engine, MemoryEngine) and engine.trouble:
            found["journal"] = engine.trouble
        if self._draining():
            found["draining"] = "clients are sent elsewhere"
        return found

    def metrics(self) -> Iterator[str]:
        """The figures as Prometheus reads them; with several workers also each one's, by its number."""
        each = self._statistics.by_worker()
        for name, value in self._statistics.figures(each).items():
            metric, kind = _metric("fastpath", name)
            yield from (f"# TYPE {metric} {kind}", f"{metric} {_number(value)}")
        yield from ("# TYPE fastpath_ready gauge", f"fastpath_ready {int(not self.reasons())}")
        if len(each) > 1:
            names = [name for name in each[0] if name not in ("worker", "pid")]
            for name in names:
                metric, kind = _metric("fastpath_worker", name)
                yield f"# TYPE {metric} {kind}"
                for figures in each:
                    if name in figures:
                        yield f'{metric}{{worker="{figures["worker"]:g}"}} {_number(figures[name])}'


class MetricsConnection(asyncio.Protocol):
    """One question and its answer; then the connection is closed."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: the question must come in time, and the answer be read."""
        self._transport = cast(asyncio.Transport, transport)
        self._health.watchers += 1
        self._health.hub.expect(self, self._health.hub.settings.handshake_seconds)
        if self._health.watchers > WATCHERS_MAX:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        del exc
        self._health.watchers -= 1
        self._health.hub.spare(self)

    def expire(self) -> None:
        """No question in time, or its answer is not read."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """The head of a request, or a part of it; a fault of ours is answered, and harms nobody else."""
        if self._answered:
            return
        self._head += data
        try:
            request = parse_request(self._head)
            if request is None:
                return
            if request.method not in ("GET", "HEAD"):
                raise BadRequest(405, "These pages are read with GET.", (("Allow", "GET, HEAD"),))
            response = self._page(request.path, request.method == "HEAD")
        except BadRequest as error:
            response = error.response()
        except Exception:
            log.exception("fault while answering")
            response = _response(500, "text/plain", b"A fault of the server.\n")
        assert self._transport is not None
        self._answered = True
        self._transport.write(response)
        self._transport.close()

    def _page(self, path: str, head: bool) -> bytes:
        match path:
            case "/healthz":
                return _response(200, _JSON, b'{"status":"ok"}\n', head)  # the loop has just proved it
            case "/readyz":
                reasons = self._health.reasons()
                body = {"status": "unavailable", "reasons": reasons} if reasons else {"status": "ok"}
                return _response(503 if reasons else 200, _JSON, json.dumps(body).encode() + b"\n", head)
            case "/metrics":
                return _response(200, _PROMETHEUS, "\n".join([*self._health.metrics(), ""]).encode(), head)
        raise BadRequest(404, "There are /healthz, /readyz and /metrics.")


def _response(status: int, kind: str, body: bytes, head: bool = False) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else body)


def _metric(prefix: str, name: str) -> tuple[str, str]:
    """Name and type: what counts from the start on ends in ``_total``."""
    return (f"{prefix}_{name}_total", "counter") if name in _COUNTERS else (f"{prefix}_{name}", "gauge")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
