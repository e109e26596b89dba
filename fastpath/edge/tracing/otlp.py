"""Spans as OTLP over HTTP, by OpenTelemetry's own exporter: its variables say to where, with what headers and keys."""

from __future__ import annotations

import logging
import logging.config
import os
import socket
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from ...listen_address import SettingsError
from .spans import MessageSpan

SERVICE = "fastpath"
"""The name of the service where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say none."""

PROTOCOL = "http/protobuf"

_UNKNOWN = "unknown_service"
"""Name that OpenTelemetry gives a service that has none."""

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def make_exporter() -> OTLPSpanExporter:
    """Make OpenTelemetry's exporter, as its variables say; raise SettingsError for what it does not take."""
    check_variables("TRACES")
    return OTLPSpanExporter()


def check_variables(signal: str) -> None:
    """Raise SettingsError where they name a protocol or an address that is none; ``signal`` is TRACES or METRICS."""
    name, protocol = _said(signal, "PROTOCOL")
    if protocol not in ("", PROTOCOL):
        raise SettingsError(f"{name}: {protocol!r} is not {PROTOCOL}, which is what the sidecar speaks")
    name, endpoint = _said(signal, "ENDPOINT")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"{name}: {endpoint!r} is not http://HOST:PORT or https://HOST:PORT")


def _said(signal: str, what: str) -> tuple[str, str]:
    """Return the variable that counts for this signal, and its value; empty: there is none."""
    names = (f"OTEL_EXPORTER_OTLP_{signal}_{what}", f"OTEL_EXPORTER_OTLP_{what}")
    return next(((name, os.environ[name]) for name in names if os.environ.get(name)), (names[1], ""))


def resource_of(worker: int) -> Resource:
    """Return what is said of the process that exports."""
    own = Resource.create({SERVICE_INSTANCE_ID: f"{socket.gethostname()}:{os.getpid()}", "fastpath.worker": worker})
    if str(own.attributes.get(SERVICE_NAME, "")).startswith(_UNKNOWN):
        own = own.merge(Resource({SERVICE_NAME: SERVICE}))
    return own.merge(Resource({SERVICE_VERSION: _version()}))


def scope() -> InstrumentationScope:
    """Return what is said of the program."""
    return InstrumentationScope(SERVICE, _version())


class OtlpExporter:
    """Exports the spans of one worker; raises SettingsError."""

    def __init__(self, worker: int) -> None:
        self._exporter = make_exporter()
        self._resource = resource_of(worker)
        self._scope = scope()
        self._words = LastWords("opentelemetry.exporter.otlp.proto.http.trace_exporter")

    def export(self, spans: Sequence[MessageSpan]) -> str:
        """Export; return an empty text when the collector has taken all, else why it has not (Exporter)."""
        self._words.forget()
        try:
            result = self._exporter.export([self._readable(span) for span in spans])
        except Exception as error:  # the exporter's own faults are no reason to end the thread
            return f"{type(error).__name__}: {error}"
        return "" if result is SpanExportResult.SUCCESS else self._words.text or "the collector did not take them"

    def close(self) -> None:
        """End an attempt that waits (Exporter)."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        self._words.close()

    def _readable(self, span: MessageSpan) -> ReadableSpan:
        trace = int(span.trace, 16)
        return ReadableSpan(
            span.name,
            SpanContext(trace, int(span.span, 16), is_remote=False, trace_flags=_SAMPLED),
            SpanContext(trace, int(span.parent, 16), is_remote=True, trace_flags=_SAMPLED) if span.parent else None,
            self._resource,
            dict(span.attributes),
            kind=SpanKind.CONSUMER if span.incoming else SpanKind.PRODUCER,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.began,
            end_time=span.ended,
            instrumentation_scope=self._scope,
        )


class LastWords(logging.Handler):
    """The last words of a logger of OpenTelemetry: the reason of a failure, which it tells in no other way.

    Until this is closed nothing of that comes into the log of this process: each attempt would be a line, and the queue
    says once what is wrong.
    """

    def __init__(self, logger: str) -> None:
        super().__init__()
        self.text = ""
        self._logger = logger
        logging.getLogger(logger).addHandler(self)
        self._hand_on(False)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()

    def close(self) -> None:
        """Let it say what it likes."""
        logging.getLogger(self._logger).removeHandler(self)
        self._hand_on(True)
        super().close()

    def forget(self) -> None:
        """Forget the last words before an attempt."""
        self.text = ""

    def _hand_on(self, on: bool) -> None:
        logging.config.dictConfig({"version": 1, "incremental": True, "loggers": {self._logger: {"propagate": on}}})


def _version() -> str:
    try:
        return version("django-fastpath")
    except PackageNotFoundError:  # a checkout
        return ""
