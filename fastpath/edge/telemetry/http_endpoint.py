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
from ..runtime.component import Offers
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
    """Whether clients should be sent to this node: what a load balancer asks."""

    def __init__(self, runtime: Runtime, statistics: Statistics, readiness: Readiness) -> None:
        self.runtime = runtime
        self.watchers = 0
        self._statistics = statistics
        self.reasons = readiness.reasons
        self.warnings = readiness.warnings
        # For Django's /metrics (protocol.md 8.1).
        self.offers = Offers(verbs={"metrics": lambda peer, arguments: {"text": self.text()}})

    def text(self) -> str:
        """What a scrape is answered with (edge/telemetry/prometheus.py)."""
        return "\n".join([*lines(self._statistics, ready=not self.reasons()), ""])


class MetricsConnection(asyncio.Protocol):
    """One question and its answer; then the connection is closed."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._answered = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: the question must come in time, and the answer be read."""
        self._transport = cast(asyncio.Transport, transport)
        self._health.watchers += 1
        self._health.runtime.expect(self, self._health.runtime.settings.handshake_seconds)
        if self._health.watchers > WATCHERS_MAX:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        del exc
        self._health.watchers -= 1
        self._health.runtime.spare(self)

    def expire(self) -> None:
        """No question in time, or its answer is not read."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """The head of a request, or a part of it; a fault of ours is answered, and harms nobody else."""
        if self._answered:
            return
        self._head += data
        try:
            request = parse_request(self._head, self._health.runtime.settings.head_bytes_max)
            if request is None:
                return
            if request.method not in ("GET", "HEAD"):
                raise BadRequest(405, "These pages are read with GET.", (("Allow", "GET, HEAD"),))
            known = _proves(request.headers.get("authorization", ""), self._health.runtime.settings.metrics_password)
            response = self._page(request.path, request.method == "HEAD", known)
        except BadRequest as error:
            response = error.response()
        except Exception:
            log.exception("fault while answering")
            response = _response(500, "text/plain", b"A fault of the server.\n")
        assert self._transport is not None
        self._answered = True
        self._transport.write(response)
        self._transport.close()

    def _page(self, path: str, head: bool, known: bool) -> bytes:
        """The answer; who is not known by the password learns only whether the node is well."""
        match path:
            case "/healthz":
                return _response(200, _JSON, b'{"status":"ok"}\n', head)  # the loop has just proved it
            case "/readyz":
                reasons = self._health.reasons()
                body: dict[str, Any] = {"status": "unavailable" if reasons else "ok"}
                if reasons and known:
                    body["reasons"] = reasons
                if known and (warnings := self._health.warnings()):
                    body["warnings"] = warnings
                return _response(503 if reasons else 200, _JSON, json.dumps(body).encode() + b"\n", head)
            case "/metrics" if not known:
                raise BadRequest(401, "The figures need the password of FASTPATH_METRICS_PASSWORD.", _CHALLENGE)
            case "/metrics":
                return _response(200, _PROMETHEUS, self._health.text().encode(), head)
        raise BadRequest(404, "There are /healthz, /readyz and /metrics.")


def _proves(authorization: str, password: str) -> bool:
    """Whether the header holds the password (RFC 7617, of any user, or RFC 6750), or there is none to be given."""
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


def _response(status: int, kind: str, body: bytes, head: bool = False) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else body)
