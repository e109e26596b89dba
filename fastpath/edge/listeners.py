"""Open the addresses to listen on, and hand each connection to the protocol of its port."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ..listener import Listener, SettingsError
from .addresses import bind
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

DRAIN_MAX = 4096
"""Connections that a full worker still takes from its listener before it closes it."""

REOPEN_SECONDS = 0.2
"""How often a full worker looks whether it has room again."""

LACK_SECONDS = 5
"""How long a worker that could open no more files, before it was full, takes that for its bound."""

TLS_END_SECONDS = 5
"""How long a peer may take to answer the end of TLS before the connection is cut."""

log = logging.getLogger("fastpath")


class Ports:
    """All open listeners of one process; ``shared`` when other workers listen on the same client ports.

    A worker that is nearly full then closes its client listeners, so that the kernel sends newcomers to the others.
    """

    def __init__(self, hub: Hub, control: Callable[[], asyncio.Protocol], *, shared: bool = False) -> None:
        self._hub = hub
        self._shared = shared
        self._sockets: dict[socket.socket, Listener] = {}  # of plain client ports
        self._control_servers: list[asyncio.Server] = []
        self._publisher_servers: list[asyncio.Server] = []
        self._client_servers: list[asyncio.Server] = []
        self._listeners: list[Listener] = []  # but control, with their real ports
        self.control = control
        self._shut = False
        self._paused = False
        self._closed = False
        self.opened: dict[str, list[str]] = {"clients": [], "publishers": [], "control": []}
        files_max = _files_max()
        self.connections_max = hub.settings.connections_max or max(files_max - FILES_RESERVED, files_max // 2)
        # Those who wait in the queue of a listener that is about to be closed still find room.
        self._full_at = self._full_usually = self.connections_max - min(ACCEPT_MAX, self.connections_max // 10)
        self._lack_until = 0.0

    async def open(self, listener: Listener) -> None:
        """Listen on every address that the listener's host stands for; raises SettingsError."""
        sockets = bind(listener, self._hub.settings, shared=self._shared)
        for sock in sockets:
            address = sock.getsockname()
            host = f"[{address[0]}]" if sock.family == socket.AF_INET6 else address[0]
            for purpose in listener.purposes:
                self.opened[purpose].append(f"{host}:{address[1]}")
        if "control" not in listener.purposes:
            self._listeners.append(replace(listener, port=sockets[0].getsockname()[1]))
        await self._serve(listener, sockets)

    def pause(self) -> None:
        """Accept no clients and publishers until ``resume``; control goes on."""
        if self._paused or self._closed:
            return
        self._paused = True
        for sock, listener in self._sockets.items():
            self._accept(sock, listener, DRAIN_MAX)  # what waits in the queue would be reset
        self._close_clients()
        for server in self._publisher_servers:
            server.close()
        self._publisher_servers = []

    def resume(self) -> None:
        """Accept clients and publishers again."""
        if self._paused and not self._closed:
            self._paused = False
            self._hub.keep(self._hub.loop.create_task(self._open_again(self._listeners)))

    def close(self) -> None:
        """Accept nobody any more."""
        self.pause()
        self._closed = True
        for server in self._control_servers:
            server.close()
        self._control_servers = []

    def full(self) -> bool:
        """Whether there is no room for the connection that has just been counted."""
        if self._shared and self._hub.connections >= self._full_at:
            self._hub.loop.call_soon(self._close_full)
        return self._hub.connections > self.connections_max

    async def _serve(self, listener: Listener, sockets: list[socket.socket]) -> None:
        context = tls_context(listener) if listener.tls else None
        for sock in sockets:
            if "clients" in listener.purposes and context is None:
                self._sockets[sock] = listener
                self._hub.loop.add_reader(sock.fileno(), self._accept, sock, listener)
                continue
            maker: Callable[[], asyncio.Protocol] = self.control
            if "control" not in listener.purposes:
                maker = partial(_Gate, self._hub, listener, self.full)
            server = await self._hub.loop.create_server(maker, sock=sock, **_tls_options(context, self._hub))
            self._servers_for(listener).append(server)

    def _servers_for(self, listener: Listener) -> list[asyncio.Server]:
        if "control" in listener.purposes:
            return self._control_servers
        return self._client_servers if "clients" in listener.purposes else self._publisher_servers

    def _accept(self, listening: socket.socket, listener: Listener, count_max: int = ACCEPT_MAX) -> None:
        for _ in range(count_max):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause(listening, listener, error)
                return
            sock.setblocking(False)
            begin = _Sniffer if "publishers" in listener.purposes else _client
            begin(self._hub, sock, address[0], listener, self.full)

    def _pause(self, listening: socket.socket, listener: Listener, error: OSError) -> None:
        """No more files: others take them, or those who wait in the kernel are taken when some client has left."""
        log.warning("cannot accept: %s; trying again", error.strerror)
        loop = self._hub.loop
        if self._shared:
            self._full_at = min(self._full_at, self._hub.connections)
            self._lack_until = loop.time() + LACK_SECONDS
            loop.call_soon(self._close_full)
            return
        loop.remove_reader(listening.fileno())

        def resume() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening.fileno(), self._accept, listening, listener)

        loop.call_later(FULL_PAUSE_SECONDS, resume)

    # A full worker

    def _close_full(self) -> None:
        if self._shut or self._paused or self._closed or self._hub.connections < self._full_at:
            return
        self._shut = True
        for sock, listener in self._sockets.items():
            self._accept(sock, listener, DRAIN_MAX)  # what waits in the queue would be reset
        self._close_clients()
        log.info("full with %d connections: the other workers take the next", self._hub.connections)
        self._hub.loop.call_later(REOPEN_SECONDS, self._reopen)

    def _close_clients(self) -> None:
        for sock in self._sockets:
            self._hub.loop.remove_reader(sock.fileno())
            sock.close()
        for server in self._client_servers:
            server.close()
        self._sockets, self._client_servers = {}, []

    def _reopen(self) -> None:
        if self._closed or self._paused or not self._shut:
            return
        if self._hub.loop.time() >= self._lack_until:
            self._full_at = self._full_usually
        room = max(1, self._full_at // 20)
        if self._hub.connections > max(0, self._full_at - room):
            self._hub.loop.call_later(REOPEN_SECONDS, self._reopen)
            return
        closed = [one for one in self._listeners if "clients" in one.purposes or not self._publisher_servers]
        self._hub.keep(self._hub.loop.create_task(self._open_again(closed)))

    async def _open_again(self, listeners: list[Listener]) -> None:
        try:
            for listener in listeners:
                await self._serve(listener, bind(listener, self._hub.settings, shared=self._shared))
        except SettingsError as error:
            log.error("%s; trying again", error)
            self._shut = True
            self._close_clients()
            self._hub.loop.call_later(REOPEN_SECONDS, self._reopen)
            return
        self._shut = False
        log.info("accepting again: %d connections", self._hub.connections)


def _client(hub: Hub, sock: socket.socket, address: str, listener: Listener, full: Callable[[], bool]) -> None:
    connection = RawConnection(hub, sock.detach(), address, listener)
    if full():
        connection.over_limit()


class _Sniffer:
    """A plain port for both purposes: a publisher's first byte is the 0 of its length, a client's is a letter."""

    def __init__(
        self, hub: Hub, sock: socket.socket, address: str, listener: Listener, full: Callable[[], bool]
    ) -> None:
        self._hub = hub
        self._sock = sock
        self._address = address
        self._listener = listener
        self._full = full
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
            _client(self._hub, self._sock, self._address, self._listener, self._full)
        else:
            self._sock.close()


class _Gate(asyncio.Protocol):
    """Stands before a transport until its first bytes tell which protocol it is to have."""

    def __init__(self, hub: Hub, listener: Listener, full: Callable[[], bool]) -> None:
        self._hub = hub
        self._listener = listener
        self._purposes = listener.purposes
        self._full = full
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
        client = TlsConnection(self._hub, self._transport, self._listener)
        self._transport.set_protocol(client)
        if self._full():
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


def _files_max() -> int:
    """Raise the limit of open files to what the process may have, and say how many that is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
