"""Spans of a real sidecar in a real collector: every way in, every way out, workers, and what is not traced."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from fastpath.client.blocking import connect
from fastpath.client.control.client import Control
from fastpath.client.publisher import Publisher
from tests.support.collector import Collected, Collector
from tests.support.edge.calling import HttpPeer
from tests.support.edge.mqtt import mqtt
from tests.support.edge.wire import WireClient, WirePublisher
from tests.support.ports import free_port
from tests.support.sidecar import Sidecar
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def tracing(collector: Collector) -> Iterator[Sidecar]:
    """A sidecar that follows its publishers, with a port for MQTT."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        listen = "clients://127.0.0.1:0,publishers://127.0.0.1:0,mqtt://127.0.0.1:0"
        with Sidecar(tracing=True, listen=listen) as sidecar:
            yield sidecar


def context(flags: str = "01") -> str:
    """The context of a publisher's span."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-{flags}"


def spans_of(collector: Collector, traceparent: str, *names: str) -> list[Collected]:
    """The spans of that trace, once there are as many of these names; in the order of the names."""
    trace = traceparent.split("-")[1]

    def found() -> list[Collected]:
        return [span for span in collector.spans() if span.trace == trace]

    until(lambda: sorted(span.name for span in found()) == sorted(names), 20)
    return sorted(found(), key=lambda span: names.index(span.name))


def check_chain(collector: Collector, sent: str, got: str) -> tuple[Collected, Collected]:
    """``accept`` is the child of what was sent, ``deliver`` of that, and a subscriber is told the middle one."""
    accept, deliver = spans_of(collector, sent, "accept", "deliver")
    assert accept.parent == sent.split("-")[2]
    assert deliver.parent == accept.span
    assert got == f"00-{accept.trace}-{accept.span}-01"
    return accept, deliver


def test_the_publisher_port_says_it_in_meta(tracing: Sidecar, collector: Collector) -> None:
    sent = context()
    with WireClient(tracing, "msgpack") as reader, WirePublisher(tracing) as publisher:
        reader.subscribe("/spans/port")
        (seq,) = publisher.publish(["/spans/port", "1", {"a": "2"}, {"traceparent": sent, "closure": "c"}])
        row = reader.message()
    assert row[3:5] == ["1", {"a": "2"}]
    assert row[5].keys() == {"closure", "traceparent"}
    accept, _ = check_chain(collector, sent, row[5]["traceparent"])
    assert accept.attributes["fastpath.seq"] == seq
    assert accept.resource["fastpath.worker"] == 0


def test_a_client_says_it_in_its_command(tracing: Sidecar, collector: Collector) -> None:
    sent = context()
    with WireClient(tracing) as reader, WireClient(tracing) as writer:
        reader.subscribe("/spans/socket")
        writer.say("publish", subject="/spans/socket", content="1", traceparent=sent)
        row = reader.message()
    check_chain(collector, sent, row[5]["traceparent"])


def test_the_python_clients_say_and_tell_it(tracing: Sidecar, collector: Collector) -> None:
    """A malformed one is left out, as everywhere."""
    sent = context()
    with connect(tracing.client_url) as client:
        stream = client.subscribe("/spans/python")
        client.publish("/spans/python", "1", traceparent=sent)
        first = stream.get(20)
        client.enqueue("/spans/python", "2", traceparent="00-\ud800").result(2 * PATIENCE_SECONDS)
        second = stream.get(20)
    assert (first.content, second.content, second.traceparent) == ("1", "2", "")
    check_chain(collector, sent, first.traceparent)


def test_a_publisher_program_has_its_own_spans(
    tracing: Sidecar, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver of Spark, or a feed: one trace from its ``publish`` on; without ``tracing`` there is none."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    with WireClient(tracing) as reader, Publisher(tracing.publisher_url, tracing=True) as publisher:
        reader.subscribe("/spans/program")
        publisher.publish("/spans/program", "1", {"a": "2"})
        publisher.remove("/spans/program")
        first, second = reader.message(), reader.message()
        with Publisher(tracing.publisher_url) as other:
            other.publish("/spans/program", "3")
        assert len(reader.message()) == 4
    for row in (first, second):
        published, accept, deliver = spans_of(collector, row[5]["traceparent"], "publish", "accept", "deliver")
        assert (published.parent, accept.parent, deliver.parent) == ("", published.span, accept.span)


def test_a_caller_over_http_says_it_in_a_header(tracing: Sidecar, collector: Collector) -> None:
    """For all messages of the request; a history, a snapshot and events tell it as well, in their own forms."""
    sent = context()
    with WireClient(tracing) as reader, HttpPeer(tracing) as peer:
        reader.subscribe("/spans/http/1")
        messages = [{"subject": f"/spans/http/{number}", "content": "x"} for number in (1, 2)]
        results = peer.publish(messages, traceparent=sent)
        got = reader.message()[5]["traceparent"]
        (told,) = peer.history(subject="/spans/http/1")
    assert [result["status"] for result in results] == ["ok", "ok"]
    assert [message["traceparent"] for message in told["messages"]] == [got]
    first, second, deliver = spans_of(collector, sent, "accept", "accept", "deliver")
    assert {first.parent, second.parent} == {sent.split("-")[2]}
    assert deliver.parent == got.split("-")[2]
    assert deliver.parent in (first.span, second.span)


def test_mqtt_says_it_in_a_user_property(tracing: Sidecar, collector: Collector) -> None:
    """Which is no field then; one that is malformed, or comes twice, is a field as ever."""
    sent = context()
    with mqtt(tracing) as reader, mqtt(tracing) as writer, WireClient(tracing) as web:
        reader.subscribe("/spans/mqtt")
        web.subscribe("/spans/mqtt")
        writer.publish("/spans/mqtt", "1", properties={"user_property": [("bid", "2"), ("traceparent", sent)]})
        packet, row = reader.message(), web.message()
        pairs = packet.properties["user_property"]
        assert [name for name, _ in pairs] == ["bid", "traceparent"]
        assert (row[3], row[4], row[5]) == ("1", {"bid": "2"}, {"retained": False, "traceparent": pairs[1][1]})
        check_chain(collector, sent, pairs[1][1])
        for wrong in ([("traceparent", "none")], [("traceparent", sent), ("traceparent", sent)]):
            writer.publish("/spans/mqtt", "2", properties={"user_property": wrong})
            assert reader.message().properties["user_property"] == wrong
            assert web.message()[4]["traceparent"] == wrong[0][1]


def test_what_is_refused_has_a_span_that_says_why(tracing: Sidecar, collector: Collector) -> None:
    sent = context()
    with WirePublisher(tracing) as publisher:
        ((code, why),) = publisher.publish(["/__sys__/spans", "1", None, {"traceparent": sent}])
    (accept,) = spans_of(collector, sent, "accept")
    assert (accept.error, accept.attributes["error.type"]) == (why, code)
    assert "fastpath.seq" not in accept.attributes


def test_what_its_publisher_does_not_record_is_carried_and_not_traced(tracing: Sidecar, collector: Collector) -> None:
    """Nor is what comes without a context, or with a malformed one."""
    unsampled, sampled = context("00"), context()
    with WireClient(tracing) as reader, WirePublisher(tracing) as publisher:
        reader.subscribe("/spans/unsampled")
        for meta in ({"traceparent": unsampled}, {"traceparent": "00-1-2-3"}, {"traceparent": 7}, None):
            publisher.publish(["/spans/unsampled", "1", None, meta])
        assert reader.message()[5] == {"traceparent": unsampled}
        assert [len(reader.message()) for _ in range(3)] == [4, 4, 4]
        publisher.publish(["/spans/unsampled", "2", None, {"traceparent": sampled}])
        check_chain(collector, sampled, reader.message()[5]["traceparent"])
    about = [span for span in collector.spans() if span.attributes["messaging.destination.name"] == "/spans/unsampled"]
    assert {span.trace for span in about} == {sampled.split("-")[1]}


def test_nobody_there_is_no_delivery_and_who_comes_later_is_told_the_context(
    tracing: Sidecar, collector: Collector
) -> None:
    """A snapshot is of many publications, and belongs to the trace of none."""
    sent = context()
    with WirePublisher(tracing) as publisher:
        publisher.publish(["/spans/later", "1", {"a": "1"}, {"traceparent": sent}])
    (accept,) = spans_of(collector, sent, "accept")
    with WireClient(tracing) as reader:
        reader.subscribe("/spans/later", history=1)
        assert reader.message()[5] == {"kind": "historical", "traceparent": f"00-{accept.trace}-{accept.span}-01"}
    with WireClient(tracing) as reader:
        reader.subscribe("/spans/later")
        assert reader.message()[5] == {"kind": "snapshot"}


def test_every_worker_with_clients_delivers_and_any_may_accept(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client's publication is accepted by its own worker, numbered by the first one, and delivered by both."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with Sidecar(tracing=True, workers=2) as sidecar:
        clients = [WireClient(sidecar) for _ in range(24)]
        try:
            for client in clients:
                client.subscribe("/spans/workers")
            sent = [context() for _ in clients]
            for client, one in zip(clients, sent, strict=True):
                client.ask("publish", "published", subject="/spans/workers", content="x", closure="c", traceparent=one)

            def accepted() -> set[int]:
                return {span.resource["fastpath.worker"] for one in sent for span in _named(collector, one, "accept")}

            def delivered(one: str) -> dict[int, int]:
                found = _named(collector, one, "deliver")
                return {span.resource["fastpath.worker"]: span.attributes["fastpath.clients"] for span in found}

            until(lambda: all(sum(delivered(one).values()) == len(clients) for one in sent), 20)
            until(lambda: all(_named(collector, one, "accept") for one in sent), 20)
        finally:
            for client in clients:
                client.__exit__(None, None, None)
    workers = set(delivered(sent[0]))
    assert accepted() == workers
    for one in sent:
        (accept,) = _named(collector, one, "accept")
        assert {span.parent for span in _named(collector, one, "deliver")} == {accept.span}
        assert set(delivered(one)) == workers


def _named(collector: Collector, traceparent: str, name: str) -> list[Collected]:
    trace = traceparent.split("-")[1]
    return [span for span in collector.spans(name) if span.trace == trace]


def test_traces_may_begin_in_the_sidecar(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "prices")
    with Sidecar(tracing=True) as sidecar, WireClient(sidecar) as reader, WirePublisher(sidecar) as publisher:
        reader.subscribe("/spans/begun")
        publisher.publish(["/spans/begun", "1"])
        got = reader.message()[5]["traceparent"]
        accept, deliver = spans_of(collector, got, "accept", "deliver")
    assert (accept.parent, accept.span, deliver.parent) == ("", got.split("-")[2], got.split("-")[2])
    assert accept.resource["service.name"] == "prices"


def test_without_a_collector_everything_goes_on_and_the_spans_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Sidecar(tracing=True) as sidecar, WireClient(sidecar) as reader, WirePublisher(sidecar) as publisher:
        reader.subscribe("/spans/lost")
        assert len(publisher.publish(["/spans/lost", "1", None, {"traceparent": context()}])) == 1
        assert reader.message()[3] == "1"
        with Control(sidecar.control) as control:
            until(lambda: control.stats()["spans_dropped"] == 2, 30)
            assert control.stats()["spans_exported"] == 0
        until(lambda: "spans are not exported" in sidecar.log)
    assert sidecar.log.count("spans are not exported") <= 1
    assert "Traceback" not in sidecar.log


def test_off_it_is_carried_as_it_came(sidecar: Sidecar) -> None:
    sent: list[Any] = [context(), context("00")]
    with WireClient(sidecar) as reader, WirePublisher(sidecar) as publisher:
        reader.subscribe("/spans/off")
        for one in sent:
            publisher.publish(["/spans/off", "1", None, {"traceparent": one}])
        assert [reader.message()[5]["traceparent"] for _ in sent] == sent
