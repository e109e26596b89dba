"""What the queries of a job have done, as fields, and a thread that reports them to the sidecars (protocol.md 6.20).

Reports are for people who look: one that does not arrive is not sent again, and no query waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from fastpath.client.errors import ClientError, ConnectionRejected, RefusedMessage
from fastpath.client.publisher.reporting import Reporter

PAUSE_SECONDS = 10.0
"""Seconds that a server is left alone that could not be told."""

CLOSE_SECONDS_MAX = 1.0
"""Seconds that the end of a job waits for its last report."""

ERROR_CHARS_MAX = 500

log = logging.getLogger("spark.progress")

Fields = dict[str, str]


class Query(Protocol):
    """The part of a pyspark.sql.streaming.StreamingQuery that is read here."""

    @property
    def name(self) -> str | None:
        """The query's name, which is the job's."""

    @property
    def isActive(self) -> bool:
        """True while the query runs."""

    @property
    def lastProgress(self) -> Any:
        """The progress of its last batch, None before the first."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The query's status: what it is doing now."""


class Reports:
    """Tells each server of `url` (with commas; none: nobody) how far the jobs of this process are: every node shows its
    own list.

    `tell` and `state` only hand over; a thread of its own connects, sends, and leaves a server alone for a while that
    is away or refuses.
    """

    def __init__(self, url: str, token: str | Callable[[], str] | None = None) -> None:
        self._servers = [_Server(one.strip(), token) for one in url.split(",") if one.strip()]
        self._run = {"run": secrets.token_hex(4), "host": socket.gethostname(), "pid": str(os.getpid())}
        self._run["started"] = str(round(time.time() * 1000))
        self._wanted: dict[str, Fields] = {}
        self._told: dict[str, Fields] = {}
        self._changed = threading.Event()
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="reports", daemon=True)
        self._thread.start()

    def tell(self, queries: Iterable[Query]) -> None:
        """Report each query's last progress under its name, the job's; one that cannot be asked is left out."""
        for query in queries:
            try:
                name, fields = query.name, fields_of(query)
            except Exception as error:  # the JVM may be going
                log.debug("a query cannot be asked: %s", error)
                continue
            if name:
                self._put(name, fields)

    def state(self, job: str, state: str, fields: Mapping[str, str] | None = None) -> None:
        """Report the state of a job that has no query: `running`, `done` or `failed`, and what else it has to say."""
        self._put(job, {"state": state, **(fields or {})})

    def close(self, error: str = "", job: str = "") -> None:
        """Report that all jobs told of have stopped, or failed with `error`: `job`, if none has been told of yet.

        This waits for at most CLOSE_SECONDS_MAX.
        """
        with self._lock:
            if error and job:
                self._told = self._told or {job: self._run}
            for job, fields in self._told.items():
                if fields.get("state") != "done":
                    ended = {"state": "failed", "error": error[:ERROR_CHARS_MAX]} if error else {"state": "stopped"}
                    self._wanted[job] = fields | ended
            self._ended = True
        self._changed.set()
        self._thread.join(CLOSE_SECONDS_MAX)

    def _put(self, job: str, fields: Fields) -> None:
        with self._lock:
            if not self._ended:
                self._wanted[job] = self._told[job] = fields | self._run
        self._changed.set()

    def _work(self) -> None:
        ended = False
        while not ended:
            self._changed.wait()
            self._changed.clear()
            with self._lock:
                wanted, self._wanted = self._wanted, {}
                ended = self._ended
            for server in self._servers:
                server.send(wanted)
        for server in self._servers:
            server.close()


class _Server:
    """A server that gets reports, and the time until which it is left alone."""

    def __init__(self, url: str, token: str | Callable[[], str] | None) -> None:
        self._url = url
        self._reporter = Reporter(url, token)
        self._resume = 0.0
        self._refused = ""

    def send(self, reports: Mapping[str, Fields]) -> None:
        """Report, if it is not left alone; what is refused is said once, in the log."""
        if time.monotonic() < self._resume:
            return
        try:
            for job, fields in reports.items():
                self._reporter.report(job, fields)
        except (ClientError, OSError, ValueError) as error:
            self._resume = time.monotonic() + PAUSE_SECONDS
            if isinstance(error, ConnectionRejected | RefusedMessage) and str(error) != self._refused:
                self._refused = str(error)
                log.warning("%s does not take the progress of this job: %s", self._url, error)

    def close(self) -> None:
        """Close the connection."""
        self._reporter.close()


def fields_of(query: Query) -> Fields:
    """Return the fields of a query's report, times in ms since 1970; what is not known is left out."""
    if not query.isActive:
        state = "stopped"
    else:
        state = "waiting" if query.status.get("message") == "Waiting for data to arrive" else "running"
    progress = query.lastProgress
    if progress is None:
        return {"state": "starting" if state != "stopped" else state}
    return {"state": state} | of_progress(json.loads(progress.json))


def of_progress(progress: Mapping[str, Any]) -> Fields:
    """Return the fields that a batch's progress gives (Spark's StreamingQueryProgress as a dictionary)."""
    durations = progress.get("durationMs") or {}
    batch_ms = durations.get("triggerExecution")
    event = progress.get("eventTime") or {}
    operators = progress.get("stateOperators") or []
    began = _milliseconds(progress.get("timestamp"))
    newest = _milliseconds(event.get("max"))
    known = {
        "query": progress.get("id"),
        "batch": progress.get("batchId"),
        "batch_time": began,
        "batch_ms": batch_ms,
        "rows": progress.get("numInputRows"),
        "rows_in_per_s": _rate(progress.get("inputRowsPerSecond")),
        "rows_done_per_s": _rate(progress.get("processedRowsPerSecond")),
        "rows_out": _published(progress),
        "watermark": _milliseconds(event.get("watermark")),
        "newest": newest,
        "lag_ms": max(0, began + (batch_ms or 0) - newest) if began and newest else None,
        "behind": _behind(progress.get("sources") or []),
        "state_rows": sum(one.get("numRowsTotal") or 0 for one in operators) if operators else None,
        "state_bytes": sum(one.get("memoryUsedBytes") or 0 for one in operators) if operators else None,
        "late_rows": sum(one.get("numRowsDroppedByWatermark") or 0 for one in operators) if operators else None,
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def _published(progress: Mapping[str, Any]) -> int | None:
    """Spark counts -1 for a sink that does not say."""
    rows = (progress.get("sink") or {}).get("numOutputRows", -1)
    return rows if rows >= 0 else None


def _rate(value: Any) -> str | None:
    """Return a number a second; Spark tells NaN and infinities of batches that took no time."""
    return f"{value:.1f}" if isinstance(value, int | float) and abs(value) < float("inf") else None


def _behind(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the number of messages of sources `realtime` not read yet, by the numbers of their subjects."""
    total = None
    for source in sources:
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end is not None and latest is not None:
            total = (total or 0) + sum(
                max(0, seq - end.get(subject, (0, 0))[1]) for subject, (_, seq) in latest.items()
            )
    return total


def _offsets(told: Any) -> dict[str, tuple[int, int]] | None:
    """Return positions `{subject: [epoch, seq]}`; None for the offset of any other source."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    if not isinstance(told, dict):
        return None
    found = {}
    for subject, place in told.items():
        if not subject.startswith("/") or not isinstance(place, list) or len(place) != 2:
            return None
        found[subject] = (int(place[0]), int(place[1]))
    return found


def _milliseconds(text: Any) -> int | None:
    """Return ISO 8601 in UTC, as Spark writes it, in ms since 1970; None for nothing and for 1970, which is "none
    yet"."""
    if not text:
        return None
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1000) or None
    except ValueError:
        return None
