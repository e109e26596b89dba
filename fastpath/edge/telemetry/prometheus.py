"""The figures as Prometheus reads them: its names and units, a line of help for each, the latencies as a histogram."""

from __future__ import annotations

from collections.abc import Iterator

from ...core.telemetry.figures import COUNTER, FIGURES, UNKNOWN, Figure
from ...core.telemetry.histogram import BOUNDS_NS, Histogram
from .figures import Statistics

_LATENCY = "Time from the acceptance of a message until it is written to a client's socket."


def lines(statistics: Statistics, *, ready: bool) -> Iterator[str]:
    """Yield all metrics in the text format 0.0.4; with several workers also each one's, by its number.

    Rates are left out: Prometheus makes them of the totals.
    """
    each = statistics.by_worker()
    yield from _metrics("fastpath", "", [("", statistics.figures(each))])
    yield from _histogram("fastpath_latency_seconds", statistics.latencies.total())
    yield "# HELP fastpath_ready 1 while clients should be sent to this node."
    yield "# TYPE fastpath_ready gauge"
    yield f"fastpath_ready {int(ready)}"
    if len(each) > 1:
        yield from _metrics(
            "fastpath_worker", " Of a worker.", [(f'worker="{figures["worker"]:g}"', figures) for figures in each]
        )


def _metrics(prefix: str, addition: str, sources: list[tuple[str, dict[str, float]]]) -> Iterator[str]:
    """Yield the figures of each source, under the label that it has; the samples of a metric stand together."""
    told: dict[str, tuple[Figure, list[str]]] = {}
    for name in dict.fromkeys(name for _, figures in sources for name in figures if name not in ("worker", "pid")):
        figure = FIGURES.get(name, UNKNOWN)
        metric = metric_of(name, figure)
        if not metric:
            continue
        _, samples = told.setdefault(f"{prefix}_{metric}", (figure, []))
        for label, figures in sources:
            if name in figures:
                labels = [
                    *([label] if label else []),
                    *([f'{figure.label[0]}="{figure.label[1]}"'] if figure.label else []),
                ]
                value = figures[name] if figure.scale == 1 else figures[name] * figure.scale
                samples.append(f"{'{' + ','.join(labels) + '}' if labels else ''} {_number(value)}")
    for metric, (figure, samples) in told.items():
        yield f"# HELP {metric} {figure.text}{addition}"
        yield f"# TYPE {metric} {figure.kind}"
        yield from (metric + sample for sample in samples)


def metric_of(name: str, figure: Figure) -> str:
    """Return what a figure is called, without its prefix; empty when it is left out."""
    if figure.metric is not None:
        return figure.metric
    return f"{name}_total" if figure.kind == COUNTER else name


def _histogram(metric: str, histogram: Histogram) -> Iterator[str]:
    yield f"# HELP {metric} {_LATENCY}"
    yield f"# TYPE {metric} histogram"
    count = 0
    for bound, more in zip((*BOUNDS_NS, None), histogram.counts, strict=True):
        count += more
        yield f'{metric}_bucket{{le="{"+Inf" if bound is None else format(bound / 1e9, "g")}"}} {count}'
    yield f"{metric}_sum {_number(histogram.sum_ns / 1e9)}"
    yield f"{metric}_count {count}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(round(value, 9))
