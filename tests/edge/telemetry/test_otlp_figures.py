"""The figures as a collector gets them: those of Prometheus, under the same names, of all workers together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fastpath.client.control.client import Control
from tests.support.collector import Collector
from tests.support.edge.calling import HttpPeer
from tests.support.edge.metrics import LISTEN
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def value(metric: Any) -> float:
    """What a sum or a gauge with one point says."""
    kind = metric.WhichOneof("data")
    (point,) = getattr(metric, kind).data_points
    return float(getattr(point, point.WhichOneof("value")))


def of_prometheus(collector: Collector) -> set[str]:
    """The metrics as a collector calls them that hands them on to Prometheus."""
    return {
        name.replace(".", "_") + ("_total" if metric.WhichOneof("data") == "sum" else "")
        for name, metric in collector.metrics().items()
    }


def test_a_collector_gets_what_prometheus_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        with Sidecar(otlp_metrics=True, listen=LISTEN, workers=2) as sidecar:
            with WireClient(sidecar) as reader, WirePublisher(sidecar) as publisher:
                reader.subscribe("/otlp/figures")
                publisher.publish(*[["/otlp/figures", "x"]] * 3)
                assert reader.texts(3) == ["x"] * 3

                def told(name: str) -> float:
                    metric = collector.metrics().get(f"fastpath.{name}")
                    return -1 if metric is None else value(metric)

                until(lambda: (told("messages_in"), told("messages_out"), told("connections")) == (3, 3, 1), 30)
            with HttpPeer(sidecar.ready["metrics"][0]) as peer:
                text = peer.ask("GET", "/metrics").body.decode()
    names = set(re.findall(r"^# TYPE (fastpath_(?!worker_)\S+)", text, re.MULTILINE)) - {"fastpath_ready"}
    assert of_prometheus(collector) == names
    ends = collector.metrics()["fastpath.disconnects"].sum
    assert ends.is_monotonic
    assert {point.attributes[0].key for point in ends.data_points} == {"reason"}
    (latency,) = collector.metrics()["fastpath.latency_seconds"].histogram.data_points
    assert (latency.count, sum(latency.bucket_counts)) == (3, 3)
    assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
    assert latency.sum > 0


def test_what_has_happened_since_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an interval that has not come yet."""
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with Sidecar(otlp_metrics=True) as sidecar, WirePublisher(sidecar) as publisher:
            publisher.publish(["/otlp/last", "x"])
        assert value(collector.metrics()["fastpath.messages_in"]) == 1


def test_without_a_collector_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    with Sidecar(otlp_metrics=True) as sidecar, WirePublisher(sidecar) as publisher:
        until(lambda: "figures are not exported" in sidecar.log, 30)
        assert publisher.publish(["/otlp/lost", "x"]) == [1]
        with Control(sidecar.control) as control:
            assert control.stats()["messages_in"] == 1
    assert "Traceback" not in sidecar.log
