"""The span ``publish``, by the OpenTelemetry of the program that publishes; its context goes with the messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

from fastpath.core.protocol.trace_context import read_traceparent

PUBLISH = "publish"

_SCOPE = "fastpath"


@contextmanager
def publish_span(rows: Sequence[list[Any]]) -> Iterator[None]:
    """Be within a span ``publish``, a child of the one that is current, and have all rows carry its context.

    Rows are ``[subject, content, fields, meta]`` with a map as meta (protocol.md 6.2). Where the program has set up no
    OpenTelemetry there is no span, and the rows stay as they are; one that its sampler leaves out goes along as such,
    so that nobody else records it. An exception is noted in the span.
    """
    attributes: dict[str, str | int] = {
        "messaging.system": "fastpath",
        "messaging.operation.name": PUBLISH,
        "messaging.operation.type": "send",
    }
    subjects = {row[0] for row in rows}
    if len(subjects) == 1:
        attributes["messaging.destination.name"] = subjects.pop()
    if len(rows) > 1:
        attributes["messaging.batch.message_count"] = len(rows)
    tracer = trace.get_tracer(_SCOPE)
    with tracer.start_as_current_span(PUBLISH, kind=SpanKind.PRODUCER, attributes=attributes) as span:
        context = span.get_span_context()
        if context.is_valid:
            traceparent = traceparent_of(context)
            for row in rows:
                row[3]["traceparent"] = traceparent
        yield


def traceparent_of(context: SpanContext) -> str:
    """Return the context of a span in the form of W3C Trace Context."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"


def context_of(traceparent: str) -> Context | None:
    """Return the context for work on a message with this ``traceparent``; None if that is none.

    ``tracer.start_as_current_span("work", context=context_of(message.traceparent))``.
    """
    read = read_traceparent(traceparent)
    if read is None:
        return None
    _, trace_id, span_id, flags = read.split("-")
    remote = SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
