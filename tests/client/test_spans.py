"""The span ``publish`` of any program, and going on with the trace that a message brings."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fastpath.client.spans import context_of, publish_span, traceparent_of


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans that have ended, of an OpenTelemetry that is everybody's for this test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_all_rows_carry_the_span_that_they_are_published_in(ended: InMemorySpanExporter) -> None:
    rows: list[list[Any]] = [["/a/b", "1", None, {}], ["/a/c", "2", None, {"closure": "c"}]]
    with publish_span(rows):
        pass
    (span,) = ended.get_finished_spans()
    sent = traceparent_of(span.get_span_context())
    assert [row[3] for row in rows] == [{"traceparent": sent}, {"closure": "c", "traceparent": sent}]
    assert (span.name, span.kind) == ("publish", trace.SpanKind.PRODUCER)
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 2
    assert "messaging.destination.name" not in span.attributes


def test_what_went_wrong_is_noted_in_it(ended: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), publish_span([["/a/b", "1", None, {}]]):
        raise KeyError("x")
    (span,) = ended.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["messaging.destination.name"] == "/a/b"


def test_whoever_gets_a_message_goes_on_with_its_trace(ended: InMemorySpanExporter) -> None:
    sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with trace.get_tracer("reader").start_as_current_span("work", context=context_of(sent)):
        pass
    (span,) = ended.get_finished_spans()
    assert span.parent is not None
    assert traceparent_of(span.parent) == sent
    assert context_of("") is None
    assert context_of("00-nothing") is None
