"""The request of a client: an upgrade to a WebSocket at ``/ws``, for whom, and under which limits (protocol.md 1)."""

from __future__ import annotations

from abc import abstractmethod
from urllib.parse import parse_qs

from ...core.auth.grants import Principal
from ...core.delivery.audience import Client
from ...core.delivery.wire_encoding import encoding, wire
from ...core.protocol.codec import JSON, SUBPROTOCOLS
from ...core.protocol.errors import Refused
from ...core.websocket.frames import FrameReader
from ...core.websocket.handshake import BadRequest, Request, accept_response
from ...core.websocket.permessage_deflate import negotiate
from ...listen_address import Listener
from ..runtime.runtime import now
from .incoming import Incoming

ECHO_BYTES_MAX = 16 << 20
"""The message limit of the echo path, for conformance suites."""


class Handshake(Incoming):
    """The part of a client's connection that answers its request, and makes the client known."""

    __slots__ = ("fd", "listener")

    direct = False
    """Whether the broker may write to ``fd`` past this object."""
    fd: int
    listener: Listener

    @abstractmethod
    def lag(self, data: bytes, sent: int) -> None:
        """The socket took only ``sent`` bytes of the frames (-1: it is broken)."""

    @abstractmethod
    def write_out(self, data: bytes) -> None:
        """Send bytes, behind what waits."""

    def upgrade(self, request: Request) -> None:
        """Answer the request, and begin with frames; raises BadRequest."""
        settings = self.runtime.settings
        self.echoing = settings.echo and request.path == "/echo"
        if not self.echoing and request.path != "/ws":
            raise BadRequest(404, "This is the client port of Fastpath: open a WebSocket at /ws.")
        self.address = self.runtime.access.check(request, self.address)
        form = next((SUBPROTOCOLS[name] for name in request.subprotocols if name in SUBPROTOCOLS), None)
        subprotocol = next((name for name in request.subprotocols if name in SUBPROTOCOLS), None)
        listener = self.listener
        offers = request.headers.get("sec-websocket-extensions", "") if listener.deflate else ""
        window_bits, extension = negotiate(offers) or (0, "") if offers else (0, "")
        response = accept_response(request, subprotocol, extension)
        rest = self.head[request.head_bytes :]
        self.head = b""
        bytes_max = ECHO_BYTES_MAX if self.echoing else self.runtime.command_bytes_max
        self.reader = FrameReader(bytes_max, deflate=window_bits > 0)
        encoded = encoding(form or JSON, window_bits, listener.deflate if window_bits else 0)
        wired = wire(encoded, listener.batch_ms, listener.batch_bytes)
        if self.echoing:
            self.client = Client(self, self.fd, False, Principal(None, False, ()), wire=wired)
            self.runtime.spare(self)
            self.write_out(response)
        else:
            token = parse_qs(request.query).get("token", [""])[-1] if "token=" in request.query else ""
            refused: Refused | None = None
            try:
                self.client = self.runtime.sessions.open(self, self.fd, self.direct, wired, token, self.address, now())
            except Refused as error:
                # The socket is opened and closed with a code: a browser tells nothing of a refused upgrade.
                self.client = Client(self, self.fd, False, Principal(None, False, ()), self.address)
                refused = error
            for told in self.runtime.connection_listeners:
                if refused is not None:
                    reason = f"{refused.code.label}: {refused.reason}"
                    told.rejected(self.address, reason, code=refused.code, request=request)
                else:
                    told.opened(self.client, request)
            if self.runtime.asks is not None and refused is None:
                self.runtime.asks.opened(self.client, request, token)
            self.write_out(response)
            if refused is not None:
                self.close(refused.code, f"{refused.code.label}: {refused.reason}")
        if rest:
            self.frames(rest)
