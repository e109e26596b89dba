"""A collector of OpenTelemetry: a server that takes spans and metrics by OTLP over HTTP, and tells what it has."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

TRACES, METRICS = "/v1/traces", "/v1/metrics"


class Collected(NamedTuple):
    """A span as it came; ids in hexadecimal digits, ``parent`` empty for the first of a trace."""

    name: str
    trace: str
    span: str
    parent: str
    kind: str
    began: int
    ended: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    error: str


class Collector:
    """``with Collector() as collector:``; ``url`` is what OTEL_EXPORTER_OTLP_ENDPOINT is set to.

    With ``status`` other than 200 it takes nothing. While ``hold`` is set a request is not answered.
    """

    def __init__(self) -> None:
        self.status = 200
        self.hold = False
        self.asked = 0
        self.headers: list[dict[str, str]] = []
        self._spans: list[Collected] = []
        self._metrics: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._free = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Nothing: a test sees what came."""

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked += 1
                while collector.hold and not collector._free.wait(0.05):
                    pass
                status = collector.status if self.path in (TRACES, METRICS) else 404
                if status == 200:
                    take = collector._take if self.path == TRACES else collector._take_metrics
                    take(data, dict(self.headers.items()))
                body = ExportTraceServiceResponse().SerializeToString() if status == 200 else b""
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Nothing: an exporter may have gone."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The address without the path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self, *names: str) -> list[Collected]:
        """What has come so far, of these names."""
        with self._lock:
            return [span for span in self._spans if not names or span.name in names]

    def metrics(self) -> dict[str, Any]:
        """The metrics that came last, by their names, as the protocol has them."""
        with self._lock:
            return dict(self._metrics)

    def _take_metrics(self, data: bytes, headers: dict[str, str]) -> None:
        del headers
        request = ExportMetricsServiceRequest.FromString(data)
        found = {
            metric.name: metric
            for group in request.resource_metrics
            for scope in group.scope_metrics
            for metric in scope.metrics
        }
        with self._lock:
            self._metrics = found

    def _take(self, data: bytes, headers: dict[str, str]) -> None:
        if headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        request = ExportTraceServiceRequest.FromString(data)
        found = [
            _collected(span, _values(group.resource.attributes))
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self.headers.append(headers)
            self._spans += found


def _collected(span: Any, resource: dict[str, Any]) -> Collected:
    return Collected(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        OtlpSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
        resource,
        span.status.message if span.status.code == Status.STATUS_CODE_ERROR else "",
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
