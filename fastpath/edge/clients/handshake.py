"""The request of a client: an upgrade to a WebSocket at ``/ws``, for whom, and under which limits (protocol.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ...core.auth.grants import Principal
from ...core.delivery.client import Client
from ...core.delivery.wire_encoding import encoding, wire
from ...core.protocol.codec import JSON, SUBPROTOCOLS
from ...core.protocol.errors import Refused
from ...core.websocket.frames import FrameReader
from ...core.websocket.handshake import BadRequest, Request, accept_response
from ...core.websocket.permessage_deflate import negotiate
from ..runtime.runtime import now

if TYPE_CHECKING:
    from .connection import ClientConnection

ECHO_BYTES_MAX = 16 << 20
"""The message limit of the echo path, for conformance suites."""


def upgrade(connection: ClientConnection, request: Request) -> None:
    """Answer the request, and begin with frames; raises BadRequest."""
    settings = connection.hub.settings
    connection.echoing = settings.echo and request.path == "/echo"
    if not connection.echoing and request.path != "/ws":
        raise BadRequest(404, "This is the client port of Fastpath: open a WebSocket at /ws.")
    connection.address = connection.hub.access.check(request, connection.address)
    form = next((SUBPROTOCOLS[name] for name in request.subprotocols if name in SUBPROTOCOLS), None)
    subprotocol = next((name for name in request.subprotocols if name in SUBPROTOCOLS), None)
    listener = connection.listener
    offers = request.headers.get("sec-websocket-extensions", "") if listener.deflate else ""
    window_bits, extension = negotiate(offers) or (0, "") if offers else (0, "")
    response = accept_response(request, subprotocol, extension)
    rest = connection.head[request.head_bytes :]
    connection.head = b""
    bytes_max = ECHO_BYTES_MAX if connection.echoing else connection.hub.command_bytes_max
    connection.reader = FrameReader(bytes_max, deflate=window_bits > 0)
    encoded = encoding(form or JSON, window_bits, listener.deflate if window_bits else 0)
    wired = wire(encoded, listener.batch_ms, listener.batch_bytes)
    if connection.echoing:
        connection.client = Client(connection, connection.fd, False, Principal(None, False, ()), wire=wired)
        connection.hub.spare(connection)
        connection.write_out(response)
    else:
        token = parse_qs(request.query).get("token", [""])[-1] if "token=" in request.query else ""
        refused: Refused | None = None
        try:
            connection.client = connection.hub.sessions.open(
                connection, connection.fd, connection.direct, wired, token, connection.address, now()
            )
        except Refused as error:
            # The socket is opened and closed with a code: a browser tells nothing of a refused upgrade.
            connection.client = Client(connection, connection.fd, False, Principal(None, False, ()), connection.address)
            refused = error
        for told in connection.hub.connection_listeners:
            if refused is not None:
                reason = f"{refused.code.label}: {refused.reason}"
                told.rejected(connection.address, reason, code=refused.code, request=request)
            else:
                told.opened(connection.client, request)
        if connection.hub.asks is not None and refused is None:
            connection.hub.asks.opened(connection.client, request, token)
        connection.write_out(response)
        if refused is not None:
            connection.close(refused.code, f"{refused.code.label}: {refused.reason}")
    if rest:
        connection.frames(rest)
