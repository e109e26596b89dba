"""What watches the sidecar from outside: ``/healthz``, ``/readyz`` and ``/metrics`` over HTTP.

docs/operate/ports.md explains it.
"""

from __future__ import annotations

import asyncio
import binascii
import hmac
import json
import logging
from base64 import b64decode
from http import HTTPStatus
from typing import Any, cast

from ...core.websocket.handshake import BadRequest, parse_request
from ..runtime.component import MetricsPage, Offers
from ..runtime.runtime import Runtime
from .figures import Statistics
from .health import Readiness
from .prometheus import lines

WATCHERS_MAX = 64
"""Connections of this port at once; more are closed."""

_JSON = "application/json"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

_CHALLENGE = (("WWW-Authenticate", 'Basic realm="metrics", charset="UTF-8"'), ("WWW-Authenticate", "Bearer"))

log = logging.getLogger("fastpath.metrics")


class Health:
    """The pages by which a load balancer learns whether to send clients here, and a monitoring system the figures."""

    def __init__(self, statistics: Statistics, readiness: Readiness) -> None:
        self._statistics = statistics
        self._readiness = readiness
        self.offers = Offers(
            # For Django's /metrics (protocol.md 8.1).
            verbs={"metrics": lambda peer, arguments: {"text": self._text()}},
            routes={"/healthz": self._health, "/readyz": self._ready, "/metrics": self._metrics},
        )

    def _text(self) -> str:
        """Return what a scrape is answered with (edge/telemetry/prometheus.py)."""
        return "\n".join([*lines(self._statistics, ready=not self._readiness.reasons()), ""])

    def _health(self, known: bool) -> MetricsPage:
        """Say that the process is well: the loop has just proved it."""
        del known
        return MetricsPage(200, _JSON, b'{"status":"ok"}\n')

    def _ready(self, known: bool) -> MetricsPage:
        """Say whether the node takes clients; who is not known does not learn why not."""
        reasons = self._readiness.reasons()
        body: dict[str, Any] = {"status": "unavailable" if reasons else "ok"}
        if reasons and known:
            body["reasons"] = reasons
        if known and (warnings := self._readiness.warnings()):
            body["warnings"] = warnings
        return MetricsPage(503 if reasons else 200, _JSON, json.dumps(body).encode() + b"\n")

    def _metrics(self, known: bool) -> MetricsPage:
        """Return the figures; raise BadRequest for who has not the password."""
        if not known:
            raise BadRequest(401, "The figures need the password of FASTPATH_METRICS_PASSWORD.", _CHALLENGE)
        return MetricsPage(200, _PROMETHEUS, self._text().encode())


class MetricsConnection(asyncio.Protocol):
    """One question and its answer; then the connection is closed. ``others`` are those of the port that are open."""

    def __init__(self, runtime: Runtime, others: set[MetricsConnection]) -> None:
        self._runtime = runtime
        self._others = others
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection, on which the question must come in time, and the answer be read."""
        self._transport = cast(asyncio.Transport, transport)
        self._others.add(self)
        self._runtime.expect(self, self._runtime.settings.handshake_seconds)
        if len(self._others) > WATCHERS_MAX:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        del exc
        self._others.discard(self)
        self._runtime.spare(self)

    def expire(self) -> None:
        """End: no question came in time, or its answer is not read."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take the head of a request, or a part of it; a fault of ours is answered, and harms nobody else."""
        if self._answered:
            return
        self._head += data
        settings = self._runtime.settings
        try:
            request = parse_request(self._head, settings.head_bytes_max)
            if request is None:
                return
            if request.method not in ("GET", "HEAD"):
                raise BadRequest(405, "These pages are read with GET.", (("Allow", "GET, HEAD"),))
            known = _proves(request.headers.get("authorization", ""), settings.metrics_password)
            response = _response(self._page(request.path, known), request.method == "HEAD")
        except BadRequest as error:
            response = error.response()
        except Exception:
            log.exception("fault while answering")
            response = _response(MetricsPage(500, "text/plain", b"A fault of the server.\n"))
        assert self._transport is not None
        self._answered = True
        self._transport.write(response)
        self._transport.close()

    def _page(self, path: str, known: bool) -> MetricsPage:
        """Return the answer to a request for this path; raise BadRequest where there is none."""
        routes = self._runtime.routes
        if path not in routes:
            *paths, last = routes
            raise BadRequest(404, f"There are {', '.join(paths)} and {last}.")
        return routes[path](known)


def _proves(authorization: str, password: str) -> bool:
    """Return True if the header holds the password (RFC 7617, of any user, or RFC 6750), or there is none to be
    given."""
    if not password:
        return True
    kind, _, given = authorization.partition(" ")
    try:
        proof = given.strip().encode("latin-1")  # a header's bytes, as they came
        if kind.lower() == "basic":
            proof = b64decode(proof, validate=True).partition(b":")[2]
        elif kind.lower() != "bearer":
            return False
    except (binascii.Error, UnicodeError):
        return False
    return hmac.compare_digest(proof, password.encode(errors="surrogateescape"))


def _response(page: MetricsPage, head: bool = False) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else page.body)
