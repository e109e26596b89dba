"""A client's socket behind a transport, for TLS, or where no socket is a file: written through the loop's buffer."""

from __future__ import annotations

import asyncio
from typing import Any

from ...listen_address import Listener
from ..runtime.runtime import Runtime
from .client_socket import ClientSocket
from .connection import ClientConnection

BUFFER_BYTES_MAX = 64 << 10
"""Bytes that the transport may hold; beyond it the client's own bounded queue takes over."""


class TlsSocket(ClientSocket[Any], asyncio.Protocol):
    """Takes over from the gate of its listener, with the first bytes (edge/listen/accept.py), for one connection."""

    __slots__ = ("_connection", "_full", "_runtime", "_transport")

    def __init__(self, runtime: Runtime, transport: asyncio.Transport, listener: Listener) -> None:
        super().__init__(listener)
        self._runtime = runtime
        self._transport = transport
        self._connection: ClientConnection | None = None
        self._full = False
        transport.set_write_buffer_limits(high=BUFFER_BYTES_MAX, low=0)

    def carry(self, connection: ClientConnection) -> None:
        """Attach to this connection, whose socket it is until the connection is lost."""
        self._connection = connection
        self._transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        """Take in decrypted bytes."""
        connection = self._connection
        if connection is not None and not connection.ended:
            connection.received(data)
            self._runtime.end()

    def eof_received(self) -> bool:
        """Answer the peer for a moment, if it may be, though it says nothing more; over TLS it ends (no half-close)."""
        connection = self._connection
        return not self.listener.tls and connection is not None and connection.still_answers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection, as the transport is gone."""
        del exc
        connection, self._connection = self._connection, None  # the two hold each other
        if connection is not None:
            connection.lost()

    def pause_writing(self) -> None:
        """Let the client lag, as the transport holds enough."""
        self._full = True
        connection = self._connection
        if connection is None or connection.closing:
            return
        client = connection.client
        if client is not None and client.queue is None:
            connection.lag(b"", 0)

    def resume_writing(self) -> None:
        """Go on writing, as the transport is empty again."""
        self._full = False
        if self._connection is not None:
            self._connection.writable()

    def send(self, connection: ClientConnection, data: bytes | memoryview) -> int:
        """Send all or nothing: the transport takes whole chunks until it is full."""
        if connection.ended or self._transport.is_closing():
            return -1
        if self._full:
            return 0
        self._transport.write(data)
        return len(data)

    def await_writable(self, connection: ClientConnection, wanted: bool) -> None:
        """Do nothing: the transport calls resume_writing by itself."""

    def await_readable(self, connection: ClientConnection, wanted: bool) -> None:
        """Stop or start reading."""
        if not connection.ended:
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    def finish(self, connection: ClientConnection) -> None:
        """End the transport when what it holds has been sent, as TLS has no half-close."""
        self._transport.close()

    def shut(self, connection: ClientConnection) -> None:
        """Close the transport, after what it holds has been sent."""
        self._transport.close()
