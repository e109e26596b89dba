"""One trace from publish() to the delivery: spans of Django's OpenTelemetry and of a real sidecar, in a collector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from fastpath.core.protocol.trace_context import is_sampled, span_of, trace_of
from realtime import PublishRefused, apublish, publish, publish_many
from realtime.checks import check_extras
from realtime.nodes.control_sockets import control
from tests.support.collector import Collected, Collector
from tests.support.edge.wire import WireClient
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture
def tracer(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[trace.Tracer]:
    """The project's own OpenTelemetry, which exports at once; for this test it is everybody's in this process."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    yield provider.get_tracer("shop")
    provider.shutdown()


@pytest.fixture(scope="module")
def tracing(collector: Collector) -> Iterator[Sidecar]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with Sidecar(tracing=True) as sidecar:
            yield sidecar


@pytest.fixture
def traced(tracing: Sidecar, settings: Any) -> Iterator[Sidecar]:
    """A sidecar that traces, and publish() as well."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": tracing.control, "TRACING": True}
    with control():
        yield tracing


def spans_of(collector: Collector, subject: str, *names: str) -> dict[str, Collected]:
    """The spans of the subject by their names, once there is one of each."""

    def found() -> dict[str, Collected]:
        return {
            span.name: span
            for span in collector.spans(*names)
            if span.attributes.get("messaging.destination.name") == subject
        }

    until(lambda: found().keys() >= set(names))
    return found()


def test_one_trace_from_publish_to_the_delivery(collector: Collector, tracer: trace.Tracer, traced: Sidecar) -> None:
    """The three spans and the project's own, each the child of the one before; and a subscriber can go on with it."""
    with WireClient(traced) as reader:
        reader.subscribe("/stocks/us/IBM")
        with tracer.start_as_current_span("order"):
            position = publish("/stocks/us/IBM", "193", {"bid": "192"})
        message = reader.message()
    assert position is not None
    spans = spans_of(collector, "/stocks/us/IBM", "publish", "accept", "deliver")
    (order,) = collector.spans("order")
    published, accepted, delivered = spans["publish"], spans["accept"], spans["deliver"]
    assert {order.trace, published.trace, accepted.trace, delivered.trace} == {order.trace}
    assert (order.parent, published.parent, accepted.parent, delivered.parent) == (
        "", order.span, published.span, accepted.span,
    )  # fmt: skip
    given = message[5]["traceparent"]
    assert (trace_of(given), span_of(given), is_sampled(given)) == (order.trace, accepted.span, True)
    assert (published.kind, accepted.kind, delivered.kind) == ("PRODUCER", "CONSUMER", "PRODUCER")
    assert (published.resource["service.name"], accepted.resource["service.name"]) == ("shop", "fastpath")
    assert accepted.began <= delivered.began <= delivered.ended
    assert accepted.attributes["fastpath.seq"] == delivered.attributes["fastpath.seq"] == position.seq
    assert delivered.attributes["fastpath.clients"] == 1


def test_what_waits_for_a_commit_goes_with_the_context_of_its_call(
    collector: Collector, tracer: trace.Tracer, traced: Sidecar
) -> None:
    """The call is over before the message leaves; several of publish_many() have one span."""
    with tracer.start_as_current_span("request"), transaction.atomic():
        publish_many([("/orders/1", "a"), ("/orders/2", "b")])
        publish("/orders/3", "c")
    single = spans_of(collector, "/orders/3", "publish", "accept")
    accepted = [spans_of(collector, f"/orders/{number}", "accept")["accept"] for number in (1, 2)]
    (together,) = [one for one in collector.spans("publish") if "messaging.batch.message_count" in one.attributes]
    assert together.attributes["messaging.batch.message_count"] == 2
    assert {span.parent for span in accepted} == {together.span}
    assert single["accept"].parent == single["publish"].span
    assert {span.trace for span in (*accepted, *single.values())} == {together.trace}


def test_asynchronous_code_publishes_in_its_own_trace(
    collector: Collector, tracer: trace.Tracer, traced: Sidecar
) -> None:
    async def view() -> None:
        with tracer.start_as_current_span("view"):
            await apublish("/async/spans", "1")

    async_to_sync(view)()
    spans = spans_of(collector, "/async/spans", "publish", "accept")
    until(lambda: collector.spans("view"))
    (own,) = collector.spans("view")
    assert (spans["publish"].parent, spans["accept"].parent) == (own.span, spans["publish"].span)


def test_a_call_that_is_refused_is_a_span_with_an_error(
    collector: Collector, tracer: trace.Tracer, traced: Sidecar
) -> None:
    """Of what was never sent there is no other."""
    with pytest.raises(PublishRefused):
        publish("/too/large", "x" * (2 << 20))
    (published,) = spans_of(collector, "/too/large", "publish").values()
    assert "too_large" in published.error


def test_what_the_project_does_not_sample_nobody_records(
    collector: Collector, traced: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer", TracerProvider(sampler=ALWAYS_OFF).get_tracer)
    with WireClient(traced) as reader:
        reader.subscribe("/unsampled/1")
        publish("/unsampled/1", "1")
        given = reader.message()[5]["traceparent"]
    assert not is_sampled(given)
    monkeypatch.setattr(trace, "get_tracer", TracerProvider().get_tracer)
    publish("/sampled/1", "1")
    spans_of(collector, "/sampled/1", "accept")
    assert [span for span in collector.spans() if span.trace == trace_of(given)] == []


@pytest.mark.parametrize("asked", [True, False])
def test_without_opentelemetry_or_without_being_asked_there_is_no_context(
    asked: bool, tracer: trace.Tracer, sidecar: Sidecar, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for in a project that has set up none, or set up in a project that has not asked for it."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": sidecar.control, "TRACING": asked}
    if asked:
        monkeypatch.setattr(trace, "get_tracer", trace.NoOpTracerProvider().get_tracer)
    with control(), WireClient(sidecar) as reader, nullcontext() if asked else tracer.start_as_current_span("order"):
        reader.subscribe("/plain/1")
        publish("/plain/1", "1")
        assert len(reader.message()) == 4


def test_the_missing_extra_is_said_by_the_check_and_by_the_call(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REALTIME = settings.REALTIME | {"TRACING": True}
    assert check_extras() == []
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "fastpath.client.spans", raising=False)
    (found,) = check_extras()
    assert (found.id, found.hint) == ("realtime.E022", "pip install 'django-fastpath[otel]'")
    with pytest.raises(ImproperlyConfigured, match="OpenTelemetry is not installed"):
        publish("/never/sent", "1")
