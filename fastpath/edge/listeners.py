"""Open the addresses to listen on, and hand each connection to the protocol of its port."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from ..settings import Listener, Settings, SettingsError
from .hub import Hub
from .publishers import PublisherConnection
from .raw import RawConnection
from .tls import TlsConnection

ACCEPT_MAX = 64
"""Connections accepted in one turn: a reconnection storm must not hold the loop."""

FULL_PAUSE_SECONDS = 0.2
"""How long to leave the listener alone when the process may open no more files."""

FILES_RESERVED = 100
"""Files that are not for clients: listeners, publishers, control, logs."""

TLS_END_SECONDS = 5
"""How long a peer may take to answer the end of TLS before the connection is cut."""

_FAMILIES = frozenset({socket.AF_INET, socket.AF_INET6})

log = logging.getLogger("fastpath")


class Ports:
    """All open listeners of one sidecar."""

    def __init__(self, hub: Hub, control: Callable[[], asyncio.Protocol]) -> None:
        self._hub = hub
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._control = control
        self.opened: dict[str, list[str]] = {"clients": [], "publishers": [], "control": []}
        files_max = _files_max()
        self._connections_max = hub.settings.connections_max or max(files_max - FILES_RESERVED, files_max // 2)

    async def open(self, listener: Listener) -> None:
        """Listen on every address that the listener's host stands for; raises SettingsError."""
        context = tls_context(listener) if listener.tls else None
        for sock in _bind(listener, self._hub.settings):
            address = sock.getsockname()
            host = f"[{address[0]}]" if sock.family == socket.AF_INET6 else address[0]
            for purpose in listener.purposes:
                self.opened[purpose].append(f"{host}:{address[1]}")
            if "clients" in listener.purposes and context is None:
                self._sockets.append(sock)
                shared = "publishers" in listener.purposes
                self._hub.loop.add_reader(sock.fileno(), self._accept, sock, shared)
            else:
                maker: Callable[[], asyncio.Protocol] = self._control
                if "control" not in listener.purposes:
                    maker = partial(_Gate, self._hub, listener.purposes, self._connections_max)
                options = _tls_options(context, self._hub)
                self._servers.append(await self._hub.loop.create_server(maker, sock=sock, **options))

    def close(self) -> None:
        """Accept nobody any more."""
        for sock in self._sockets:
            self._hub.loop.remove_reader(sock.fileno())
            sock.close()
        for server in self._servers:
            server.close()
        self._sockets, self._servers = [], []

    def _accept(self, listening: socket.socket, shared: bool) -> None:
        for _ in range(ACCEPT_MAX):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(listening, shared, error)
                return
            sock.setblocking(False)
            if shared:
                _Sniffer(self._hub, sock, address[0], self._connections_max)
            else:
                _client(self._hub, sock, address[0], self._connections_max)

    def _pause(self, listening: socket.socket, shared: bool, error: OSError) -> None:
        """No more files: those who wait in the kernel are taken when some client has left."""
        log.warning("cannot accept: %s; trying again", error.strerror)
        loop = self._hub.loop
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening.fileno(), self._accept, listening, shared)

        loop.call_later(FULL_PAUSE_SECONDS, resume)


def _client(hub: Hub, sock: socket.socket, address: str, connections_max: int) -> None:
    connection = RawConnection(hub, sock, address)
    if hub.connections > connections_max:
        connection.over_limit()


class _Sniffer:
    """A plain port for both purposes: a publisher's first byte is the 0 of its length, a client's is a letter."""

    def __init__(self, hub: Hub, sock: socket.socket, address: str, connections_max: int) -> None:
        self._hub = hub
        self._sock = sock
        self._address = address
        self._connections_max = connections_max
        hub.expect(self, hub.settings.handshake_seconds)
        hub.loop.add_reader(sock.fileno(), self._peek)

    def expire(self) -> None:
        """Nothing came in time."""
        self._release()
        self._sock.close()

    def _release(self) -> None:
        self._hub.spare(self)
        self._hub.loop.remove_reader(self._sock.fileno())

    def _peek(self) -> None:
        try:
            first = self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._release()
        if first == b"\x00":
            hub = self._hub
            task = hub.loop.create_task(hub.loop.connect_accepted_socket(lambda: PublisherConnection(hub), self._sock))
            hub.keep(task)
        elif first:
            _client(self._hub, self._sock, self._address, self._connections_max)
        else:
            self._sock.close()


class _Gate(asyncio.Protocol):
    """Stands before a transport until its first bytes tell which protocol it is to have."""

    def __init__(self, hub: Hub, purposes: frozenset[str], connections_max: int) -> None:
        self._hub = hub
        self._purposes = purposes
        self._connections_max = connections_max
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, and the TLS handshake done: a port with one purpose hands over at once."""
        self._transport = cast(asyncio.Transport, transport)
        if self._purposes == {"publishers"}:
            self._to_publisher()
        elif self._purposes == {"clients"}:
            self._to_client()
        else:
            self._hub.expect(self, self._hub.settings.handshake_seconds)

    def data_received(self, data: bytes) -> None:
        """The first bytes on a shared port: a publisher's first one is the 0 of its length."""
        self._hub.spare(self)
        (self._to_publisher() if data[:1] == b"\x00" else self._to_client()).data_received(data)

    def _to_client(self) -> TlsConnection:
        assert self._transport is not None
        client = TlsConnection(self._hub, self._transport)
        self._transport.set_protocol(client)
        if self._hub.connections > self._connections_max:
            client.over_limit()
        return client

    def _to_publisher(self) -> PublisherConnection:
        assert self._transport is not None
        publisher = PublisherConnection(self._hub)
        self._transport.set_protocol(publisher)
        publisher.connection_made(self._transport)
        return publisher

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone before it said anything."""
        del exc
        self._hub.spare(self)

    def expire(self) -> None:
        """Nothing came in time."""
        if self._transport is not None:
            self._transport.abort()


def _tls_options(context: ssl.SSLContext | None, hub: Hub) -> dict[str, Any]:
    """What the loop wants to know for TLS: nobody may be slower with its handshake than with its first command."""
    if context is None:
        return {}
    return {
        "ssl": context,
        "ssl_handshake_timeout": hub.settings.handshake_seconds,
        "ssl_shutdown_timeout": TLS_END_SECONDS,
    }


def tls_context(listener: Listener) -> ssl.SSLContext:
    """The TLS side of a listener: TLS 1.2 or newer, its own certificate and ciphers; raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(listener.cert, listener.key or None)
        if listener.ciphers:
            context.set_ciphers(listener.ciphers)
        if listener.ca:
            # Whoever connects shows a certificate of this authority. Without tickets nothing arrives unasked, so that
            # the client can tell a closed connection from an open one.
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(listener.ca)
            context.num_tickets = 0
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"TLS for {listener.host}:{listener.port}: {error} "
            f"(certificate {listener.cert}, key {listener.key or 'in it'})"
        ) from None
    return context


def _bind(listener: Listener, settings: Settings) -> list[socket.socket]:
    # RFC 6761 6.3: localhost is loopback whatever a resolver says, also on a machine without /etc/hosts.
    hosts = {"*": (None,), "localhost": ("127.0.0.1", "::1")}.get(listener.host, (listener.host,))
    try:
        found = [
            one
            for host in hosts
            for one in socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ]
    except socket.gaierror as error:
        raise SettingsError(f"cannot listen on {listener.host}: {error.strerror}") from None
    sockets: list[socket.socket] = []
    port = listener.port
    for family, kind, proto, _, address in found:
        if family not in _FAMILIES:
            continue
        sock: socket.socket | None = None
        try:
            sock = socket.socket(family, kind, proto)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by every connection that is accepted: no system call per client.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, settings.unsent_bytes_max)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            sock.listen(65535)
        except OSError as error:
            if sock is not None:
                sock.close()
            others = len(found) > 1  # as of * and of localhost
            if family == socket.AF_INET6 and others and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # a machine without IPv6
            for one in sockets:
                one.close()
            raise SettingsError(f"cannot listen on {listener.host}:{port}: {error.strerror}") from None
        sock.setblocking(False)
        port = sock.getsockname()[1]
        sockets.append(sock)
    return sockets


def _files_max() -> int:
    """Raise the limit of open files to what the process may have, and say how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
