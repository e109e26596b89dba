"""From an accepted socket to the protocol it is for: the proxy's header, TLS, the first byte, then the connection."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

from ...core.websocket.proxy_protocol import (
    LINE_BYTES_MAX,
    START_BYTES,
    BadProxy,
    Proxied,
    parse_line,
    parse_proxy,
    parse_start,
)
from ...listen_address import Listener, SettingsError
from ..clients.connection import ClientConnection
from ..clients.plain_transport import PlainSockets
from ..clients.tls_transport import TlsSocket
from ..publishers.connection import PublisherConnection
from ..runtime.connection_log import connection_refused
from ..runtime.runtime import Runtime
from .tls_context import tls_context

ARRIVING_MAX = 64
"""Connections beyond the bound of the port that may still be on their way in, so that they can be told that it is."""

TLS_END_SECONDS = 5
"""Seconds that a peer may take to answer the end of TLS before the connection is cut."""

SOCKETS_ARE_FILES = hasattr(os, "readv")
"""True where a socket's descriptor is read and written as a file's: not on Windows, where each has a transport."""

log = logging.getLogger("fastpath.ports")


class AcceptedSockets:
    """Accepted sockets, of which ``count`` are on their way and no connection yet."""

    def __init__(
        self, runtime: Runtime, full: Callable[[], bool], makers: dict[str, Callable[[], asyncio.Protocol]]
    ) -> None:
        self.runtime = runtime
        self.full = full
        self.count = 0
        self.connections_max = 0
        self._makers = makers
        self._contexts: dict[Listener, ssl.SSLContext] = {}
        self._plain: dict[Listener, PlainSockets] = {}

    def prepare(self, listener: Listener) -> None:
        """Read what the listener needs; raises SettingsError."""
        if listener.tls and listener not in self._contexts:
            self._contexts[listener] = tls_context(listener)

    def reload(self) -> list[str]:
        """Read certificates and keys anew, for the handshakes to come; where that fails the old ones stay.

        Answers what was wrong.
        """
        errors = []
        for listener in self._contexts:
            try:
                self._contexts[listener] = tls_context(listener)
            except SettingsError as error:
                errors.append(str(error))
        return errors

    def begin(self, sock: socket.socket, address: str, listener: Listener) -> None:
        """Begin with a socket that was accepted from ``address``."""
        crowded = self.runtime.connections + self.count > self.connections_max + ARRIVING_MAX
        if crowded and listener.purposes.isdisjoint(self._makers):
            sock.close()
        elif not listener.proxy:
            self.enter(sock, address, listener)
        elif address in self.runtime.access.trusted:
            _PROXY_STAGES[listener.proxy](self, sock, address, listener).begin()
        else:
            connection_refused(address, f"not one of FASTPATH_TRUSTED_PROXIES, on {listener.where}")
            sock.close()

    def enter(self, sock: socket.socket, address: str, listener: Listener) -> None:
        """Let in a socket of which it is known where it comes from."""
        if listener.tls:
            self._spawn(self._secure(sock, address, listener))
        elif not SOCKETS_ARE_FILES:
            self.to_protocol(sock, self._maker(address, listener))
        elif listener.purposes <= {"clients", "mqtt"}:
            self.to_client(sock, address, listener)
        elif "clients" in listener.purposes:
            _Sniffer(self, sock, address, listener).begin()
        else:
            self.to_protocol(sock, self._maker(address, listener))

    def to_client(self, sock: socket.socket, address: str, listener: Listener) -> None:
        """Make a plain client's connection."""
        plain = self._plain.get(listener)
        if plain is None:
            plain = self._plain[listener] = PlainSockets(self.runtime.watch, listener)
        connection = ClientConnection(self.runtime, plain, sock.detach(), address)
        plain.begin(connection)
        if self.full():
            connection.over_limit()

    def to_protocol(self, sock: socket.socket, maker: Callable[[], asyncio.Protocol]) -> None:
        """Make any other connection that needs no TLS."""
        self._spawn(self._connect(sock, maker))

    async def _connect(self, sock: socket.socket, maker: Callable[[], asyncio.Protocol], **tls: Any) -> None:
        self.count += 1
        try:
            await self.runtime.loop.connect_accepted_socket(maker, sock, **tls)
        except OSError as error:  # gone already, or a handshake that failed or did not come in time
            if isinstance(error, ConnectionAbortedError | TimeoutError):  # as uvloop and asyncio call the last
                self.runtime.broker.counters.limit("handshake")
            log.debug("a connection did not come about: %s", error)
        finally:
            self.count -= 1

    async def _secure(self, sock: socket.socket, address: str, listener: Listener) -> None:
        """Begin TLS: nobody may be slower with its handshake than with its first command."""
        await self._connect(
            sock,
            self._maker(address, listener),
            ssl=self._contexts[listener],
            ssl_handshake_timeout=self.runtime.settings.handshake_seconds,
            ssl_shutdown_timeout=TLS_END_SECONDS,
        )

    def _maker(self, address: str, listener: Listener) -> Callable[[], asyncio.Protocol]:
        for purpose, maker in self._makers.items():
            if purpose in listener.purposes:
                return maker
        if (listener.tls or not SOCKETS_ARE_FILES) and not listener.purposes.isdisjoint(("clients", "mqtt")):
            return lambda: _Gate(self, address, listener)
        return lambda: PublisherConnection(self.runtime, address)

    def _spawn(self, work: Any) -> None:
        self.runtime.keep(self.runtime.loop.create_task(work))


class _Stage(ABC):
    """A socket that must say something in time before it is known what it is."""

    def __init__(self, arrivals: AcceptedSockets, sock: socket.socket, address: str, listener: Listener) -> None:
        self._arrivals = arrivals
        self._sock = sock
        self._address = address
        self._listener = listener

    def begin(self) -> None:
        """Listen to the socket, for as long as a handshake may take."""
        arrivals = self._arrivals
        arrivals.count += 1
        arrivals.runtime.expect(self, arrivals.runtime.settings.handshake_seconds)
        arrivals.runtime.loop.add_reader(self._sock.fileno(), self._readable)

    def expire(self) -> None:
        """End a stage in which nothing came in time."""
        self._arrivals.runtime.broker.counters.limit("handshake")
        connection_refused(self._address, "nothing came in time")
        self._end()

    def _end(self) -> None:
        self._over()
        self._sock.close()

    def _over(self) -> None:
        """Note that this stage has ended."""
        self._arrivals.count -= 1
        self._arrivals.runtime.spare(self)
        self._arrivals.runtime.loop.remove_reader(self._sock.fileno())

    @abstractmethod
    def _readable(self) -> None:
        """Read what there is, or the end."""


class _ProxyStage(_Stage):
    """The header of a trusted proxy, and not a byte more: what follows may be a TLS handshake."""

    _buffer = b""

    @abstractmethod
    def _wanted(self) -> int:
        """Return how many bytes to read that are surely the header's."""

    @abstractmethod
    def _parse(self) -> Proxied | None:
        """Return the header, if it is whole; raise BadProxy."""

    def _readable(self) -> None:
        try:
            data = self._sock.recv(self._wanted())
            if not data:
                raise BadProxy("it ended within the header")
            self._buffer += data
            found = self._parse()
        except BlockingIOError:
            return
        except (OSError, BadProxy) as error:
            connection_refused(self._address, str(error))
            self._end()
            return
        if found is not None:
            self._over()
            self._arrivals.enter(self._sock, found.address or self._address, self._listener)


class _BinaryProxyStage(_ProxyStage):
    """Version 2, which says how long it is."""

    def _wanted(self) -> int:
        whole = START_BYTES if len(self._buffer) < START_BYTES else START_BYTES + parse_start(self._buffer)
        return whole - len(self._buffer)

    def _parse(self) -> Proxied | None:
        return parse_proxy(self._buffer)


class _LineProxyStage(_ProxyStage):
    """Version 1, a line: its end is looked for before anything is taken."""

    def _wanted(self) -> int:
        ahead = self._sock.recv(LINE_BYTES_MAX - len(self._buffer), socket.MSG_PEEK)
        return ahead.find(b"\n") + 1 or len(ahead) or 1

    def _parse(self) -> Proxied | None:
        return parse_line(self._buffer)


_PROXY_STAGES = {"v1": _LineProxyStage, "v2": _BinaryProxyStage}


class _Sniffer(_Stage):
    """A plain port for both purposes: a publisher's first byte is the 0 of its length, a client's is a letter."""

    def _readable(self) -> None:
        try:
            first = self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._over()
        if first == b"\x00":
            runtime, address = self._arrivals.runtime, self._address
            self._arrivals.to_protocol(self._sock, lambda: PublisherConnection(runtime, address, self._arrivals.full))
        elif first:
            self._arrivals.to_client(self._sock, self._address, self._listener)
        else:
            self._sock.close()


class _Gate(asyncio.Protocol):
    """Stands before a transport, as TLS has one, until its first bytes tell which protocol it is to have."""

    def __init__(self, arrivals: AcceptedSockets, address: str, listener: Listener) -> None:
        self._arrivals = arrivals
        self._address = address
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._waits = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin when the TLS handshake is done: a port with one purpose hands over at once."""
        self._transport = cast(asyncio.Transport, transport)
        if self._listener.purposes <= {"clients", "mqtt"}:
            self._to_client()
        else:
            self._waits = True
            self._arrivals.count += 1
            self._arrivals.runtime.expect(self, self._arrivals.runtime.settings.handshake_seconds)

    def data_received(self, data: bytes) -> None:
        """Hand over by the first bytes on a shared port: a publisher's first one is the 0 of its length."""
        self._over()
        (self._to_publisher() if data[:1] == b"\x00" else self._to_client()).data_received(data)

    def _to_client(self) -> TlsSocket:
        assert self._transport is not None
        runtime, fd = self._arrivals.runtime, self._transport.get_extra_info("socket").fileno()
        sock = TlsSocket(runtime, self._transport, self._listener)
        client = ClientConnection(runtime, sock, fd, self._address)
        sock.carry(client)
        if self._arrivals.full():
            client.over_limit()
        return sock

    def _to_publisher(self) -> PublisherConnection:
        assert self._transport is not None
        publisher = PublisherConnection(self._arrivals.runtime, self._address, self._arrivals.full)
        self._transport.set_protocol(publisher)
        publisher.connection_made(self._transport)
        return publisher

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone before it said anything."""
        del exc
        self._over()

    def _over(self) -> None:
        if self._waits:
            self._waits = False
            self._arrivals.count -= 1
            self._arrivals.runtime.spare(self)

    def expire(self) -> None:
        """End a connection on which nothing came in time."""
        self._arrivals.runtime.broker.counters.limit("handshake")
        if self._transport is not None:
            self._transport.abort()
