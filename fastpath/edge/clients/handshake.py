"""The request of a client: what answers one for a WebSocket, events or a session, for whom, and on which terms.

docs/reference/protocol.md 1, docs/reference/events.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import parse_qs

from ...core.delivery.wire import Terms, terms_of
from ...core.events.framing import encode_event
from ...core.events.request import EVENTS_TYPE
from ...core.protocol.codec import JSON, SUBPROTOCOLS, Form
from ...core.protocol.rest import encode_body
from ...core.websocket.frames import FrameReader
from ...core.websocket.handshake import BadRequest, Request, accept_response
from ...core.websocket.permessage_deflate import negotiate
from ...core.wires.registry import wire_of
from ...listen_address import Listener
from ..plain_http.call import bearer_token
from ..runtime.runtime import Runtime

MQTT_PATH, MQTT_SUBPROTOCOL = "/mqtt", "mqtt"
"""Path where a WebSocket speaks MQTT, and the subprotocol that says so (5: 6)."""

POLL_MS = 25_000
"""Milliseconds for which a poll is held while there is nothing to tell; a session whose client asks nothing for twice
that ends."""


class WebSocketOpening(NamedTuple):
    """The beginning of a WebSocket."""

    response: bytes
    reader: FrameReader
    terms: Terms


def websocket_opening(request: Request, listener: Listener, bytes_max: int) -> WebSocketOpening:
    """Answer a request for a WebSocket that takes messages of up to so many bytes; raises BadRequest."""
    subprotocol = next((name for name in request.subprotocols if name in SUBPROTOCOLS), None)
    offers = request.headers.get("sec-websocket-extensions", "") if listener.deflate else ""
    window_bits, extension = negotiate(offers) or (0, "") if offers else (0, "")
    response = accept_response(request, subprotocol, extension)
    form = JSON if subprotocol is None else SUBPROTOCOLS[subprotocol]
    terms = terms_over(form, listener, window_bits, listener.deflate if window_bits else 0)
    return WebSocketOpening(response, FrameReader(bytes_max, deflate=window_bits > 0), terms)


def check_mqtt(request: Request) -> None:
    """Check a WebSocket that is to speak MQTT; raise BadRequest for one that does not say so."""
    if request.is_upgrade and MQTT_SUBPROTOCOL not in request.subprotocols:
        raise BadRequest(400, "MQTT over a WebSocket has the subprotocol mqtt.")


def terms_over(form: Form, listener: Listener, window_bits: int = 0, deflate_bytes: int = 0) -> Terms:
    """Return the terms of a port for clients of that form."""
    return terms_of(wire_of(form, window_bits, deflate_bytes), listener.batch_ms, listener.batch_bytes)


def query_token(request: Request) -> str:
    """Return the token in the address; empty without one."""
    return parse_qs(request.query).get("token", [""])[-1] if "token=" in request.query else ""


def token_of(request: Request) -> str:
    """Return the token of a request over HTTP."""
    return bearer_token(request) or query_token(request)


def events_head(request: Request, restricted: bool, coding: str = "") -> bytes:
    """Return the head of a stream: no proxy may keep, change or hold back any of it; it ends with the connection."""
    origin = request.headers.get("origin", "*") if restricted else "*"
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {EVENTS_TYPE}\r\nCache-Control: no-store, no-transform\r\n{coding}"
        f"X-Accel-Buffering: no\r\nAccess-Control-Allow-Origin: {origin}\r\nVary: Origin\r\nConnection: close\r\n\r\n"
    ).encode("latin-1")


def session_terms(runtime: Runtime, number: str) -> dict[str, Any]:
    """Return what the client of a session over HTTP is told first: the session's id, and how it is kept."""
    return {
        "session": number,
        "heartbeat_ms": runtime.settings.ping_seconds * 1000,
        "poll_ms": POLL_MS,
        "frame_bytes": runtime.command_bytes_max,
    }


def session_welcome(runtime: Runtime, number: str) -> bytes:
    """Return the same terms as the first event of a stream."""
    return encode_event(encode_body(session_terms(runtime, number), JSON), "session")
