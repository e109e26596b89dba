"""Spans as OTLP: what a collector reads, and what is said of one that does not take them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fastpath.edge.tracing.otlp import OtlpExporter
from fastpath.edge.tracing.spans import MessageSpan
from tests.support.collector import Collector
from tests.support.ports import free_port

TRACE, ACCEPT, PUBLISH = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
WHAT = {"messaging.destination.name": "/a/b", "fastpath.seq": 7}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


def test_a_span_is_read_as_it_was(collector: Collector) -> None:
    exporter = OtlpExporter(3)
    spans = [
        MessageSpan("accept", True, TRACE, ACCEPT, PUBLISH, 1_700_000_000_000_000_001, 1_700_000_000_000_000_009, WHAT),
        MessageSpan("deliver", False, TRACE, PUBLISH, "", 5, 6, {}, "no rule allows it"),
    ]
    assert exporter.export(spans) == ""
    first, second = collector.spans()
    assert first[:4] == ("accept", TRACE, ACCEPT, PUBLISH)
    assert (first.began, first.ended) == (1_700_000_000_000_000_001, 1_700_000_000_000_000_009)
    assert (first.kind, first.attributes, first.error) == ("CONSUMER", WHAT, "")
    assert (second.kind, second.parent, second.error) == ("PRODUCER", "", "no rule allows it")
    assert (first.resource["service.name"], first.resource["fastpath.worker"]) == ("fastpath", 3)
    assert first.resource["service.instance.id"].endswith(f":{os.getpid()}")
    exporter.close()


def test_the_variables_of_opentelemetry_hold(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=prices,deployment.environment=test")
    exporter = OtlpExporter(0)
    assert exporter.export([MessageSpan("accept", True, TRACE, ACCEPT, "", 1, 2, {})]) == ""
    (span,), (headers,) = collector.spans(), collector.headers
    assert (headers["x-tenant"], headers["Content-Encoding"]) == ("blue", "gzip")
    assert (span.resource["service.name"], span.resource["deployment.environment"]) == ("prices", "test")
    exporter.close()


def test_why_they_were_not_taken(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    span = MessageSpan("accept", True, TRACE, ACCEPT, "", 1, 2, {})
    exporter = OtlpExporter(0)
    collector.status = 400
    assert "400" in exporter.export([span])
    collector.status = 200
    assert exporter.export([span]) == ""
    exporter.close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    nobody = OtlpExporter(0)
    assert nobody.export([span])
    nobody.close()
