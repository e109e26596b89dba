"""The figures as metrics of OTLP: the same table as for Prometheus, sent to a collector instead of being asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import monotonic, time_ns
from typing import NamedTuple

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from ...core.telemetry.figures import COUNTER, FIGURES, UNKNOWN, Figure
from ...core.telemetry.histogram import BOUNDS_NS
from ...listen_address import SettingsError
from ..runtime.component import Offers
from ..tracing.otlp import LastWords, check_variables, resource_of, scope
from ..tracing.spans import ExportQueue
from .figures import Statistics
from .prometheus import metric_of

INTERVAL, INTERVAL_MS = "OTEL_METRIC_EXPORT_INTERVAL", 60_000

PREFIX = "fastpath."

LATENCY = "latency_seconds"

_CUMULATIVE = AggregationTemporality.CUMULATIVE


class FiguresMoment(NamedTuple):
    """The figures at a time (ns since 1970), and the durations of deliveries as counts by their bounds, with their
    sum in ns."""

    time: int
    figures: dict[str, float]
    counts: list[int]
    sum_ns: int


def interval_seconds() -> float:
    """Return how often figures are exported, in seconds; raise SettingsError."""
    text = os.environ.get(INTERVAL) or str(INTERVAL_MS)
    if not text.isdecimal() or not 1000 <= int(text) <= 86_400_000:
        raise SettingsError(f"{INTERVAL}: {text!r} is no whole number of ms from 1000 to a day")
    return int(text) / 1000


def make_exporter() -> OTLPMetricExporter:
    """Make OpenTelemetry's exporter, as its variables say; raise SettingsError for what it does not take."""
    check_variables("METRICS")
    return OTLPMetricExporter()


class FiguresExport:
    """Takes the node's figures each interval, on the first worker."""

    def __init__(self, statistics: Statistics, queue: ExportQueue[FiguresMoment], seconds: float) -> None:
        self._statistics = statistics
        self._queue = queue
        self._seconds = seconds
        self._due = monotonic() + seconds
        self.offers = Offers(on_second=self._second, stop=self._stop)
        queue.start()

    def _second(self, _: int) -> None:
        moment = monotonic()
        if moment >= self._due:
            self._due = max(self._due + self._seconds, moment)
            self._take()

    def _stop(self) -> None:
        """Stop with the last figures, which count for what has happened since."""
        self._take()
        self._queue.stop()

    def _take(self) -> None:
        latency = self._statistics.latencies.total()
        self._queue.put(FiguresMoment(time_ns(), self._statistics.figures(), list(latency.counts), latency.sum_ns))


class OtlpFigures:
    """Exports figures; raises SettingsError."""

    def __init__(self) -> None:
        self._exporter = make_exporter()
        self._resource = resource_of(0)
        self._began = time_ns()
        self._words = LastWords("opentelemetry.exporter.otlp.proto.http.metric_exporter")

    def export(self, moments: Sequence[FiguresMoment]) -> str:
        """Export; return an empty text when the collector has taken all, else why it has not (Exporter)."""
        for moment in moments:
            self._words.forget()
            scoped = ScopeMetrics(scope(), metrics_of(moment, self._began), "")
            data = MetricsData([ResourceMetrics(self._resource, [scoped], "")])
            try:
                result = self._exporter.export(data)
            except Exception as error:  # the exporter's own faults are no reason to end the thread
                return f"{type(error).__name__}: {error}"
            if result is not MetricExportResult.SUCCESS:
                return self._words.text or "the collector did not take them"
        return ""

    def close(self) -> None:
        """End an attempt that waits (Exporter)."""
        self._exporter.shutdown()
        self._words.close()


def metrics_of(moment: FiguresMoment, began: int) -> list[Metric]:
    """Return the metrics: a collector that hands them to Prometheus calls them as ``/metrics`` does."""
    points: dict[str, tuple[Figure, list[NumberDataPoint]]] = {}
    for name, value in moment.figures.items():
        figure = FIGURES.get(name, UNKNOWN)
        metric = metric_of(name, figure).removesuffix("_total")
        if metric:
            label = dict([figure.label]) if figure.label else {}
            point = NumberDataPoint(label, began, moment.time, value if figure.scale == 1 else value * figure.scale)
            points.setdefault(PREFIX + metric, (figure, []))[1].append(point)
    told = [
        Metric(
            name,
            figure.text,
            "",
            Sum(found, _CUMULATIVE, is_monotonic=True) if figure.kind == COUNTER else Gauge(found),
        )
        for name, (figure, found) in points.items()
    ]
    bounds = [bound / 1e9 for bound in BOUNDS_NS]
    count, total = sum(moment.counts), moment.sum_ns / 1e9
    latency = HistogramDataPoint({}, began, moment.time, count, total, moment.counts, bounds, 0, 0)
    text = "Time from the acceptance of a message until it is written to a client's socket."
    return [*told, Metric(PREFIX + LATENCY, text, "", Histogram([latency], _CUMULATIVE))]
