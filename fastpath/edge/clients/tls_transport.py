"""A client connection behind a transport, for TLS: the same protocol, written through the loop's buffer."""

from __future__ import annotations

import asyncio

from ...listen_address import Listener
from ..runtime.runtime import Runtime
from .connection import ClientConnection

BUFFER_BYTES_MAX = 64 << 10
"""What the transport may hold; beyond it the client's own bounded queue takes over."""


class TlsConnection(ClientConnection, asyncio.Protocol):
    """Takes over from the gate of its listener, with the first bytes (edge/listen/accept.py)."""

    __slots__ = ("_full", "transport")

    def __init__(self, runtime: Runtime, transport: asyncio.Transport, address: str, listener: Listener) -> None:
        super().__init__(runtime, transport.get_extra_info("socket").fileno(), address, listener)
        self.transport = transport
        self._full = False
        transport.set_write_buffer_limits(high=BUFFER_BYTES_MAX, low=0)

    def data_received(self, data: bytes) -> None:
        """Take in decrypted bytes."""
        if not self.ended:
            self.received(data)
            self.runtime.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        del exc
        self.lost()

    def pause_writing(self) -> None:
        """The transport holds enough."""
        self._full = True
        client = self.client
        if client is not None and client.queue is None and not self.closing:
            self.lag(b"", 0)

    def resume_writing(self) -> None:
        """The transport is empty again."""
        self._full = False
        self.writable()

    def send_now(self, data: bytes | memoryview) -> int:
        """All or nothing: the transport takes whole chunks until it is full."""
        if self.ended or self.transport.is_closing():
            return -1
        if self._full:
            return 0
        self.transport.write(data)
        return len(data)

    def await_writable(self, wanted: bool) -> None:
        """The transport calls resume_writing by itself."""

    def await_readable(self, wanted: bool) -> None:
        """Stop or start reading."""
        if not self.ended:
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def finish(self) -> None:
        """TLS has no half-close: end it when what the transport holds has been sent."""
        self.transport.close()

    def shut(self) -> None:
        """Close the transport, after what it holds has been sent."""
        self.transport.close()
