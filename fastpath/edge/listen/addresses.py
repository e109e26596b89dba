"""Bind the addresses of a listener, for one process or for several behind the same port."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from pathlib import Path

from ...listen_address import Listener, SettingsError
from ...settings import Settings
from .control_socket import check_socket

_FAMILIES = frozenset({socket.AF_INET, socket.AF_INET6})


def reserve(listener: Listener, settings: Settings) -> tuple[Listener, list[socket.socket]]:
    """Make sure that nobody has the listener's port, and keep it for this user's processes; raises SettingsError.

    Answers the listener with its real port, and the sockets that hold it; they listen to nothing. While they are open
    other programs cannot have the port, also when no process listens at this moment.
    """
    found = bind(listener, settings)
    port = found[0].getsockname()[1]
    for sock in found:
        sock.close()
    listener = replace(listener, port=port)
    held = bind(listener, settings, shared=True, listening=False)
    for sock in held:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return listener, held


def bind_unix(listener: Listener) -> socket.socket:
    """Listen on the listener's unix socket; a file that nobody serves any more is replaced. Raises SettingsError."""
    path = listener.path
    if not hasattr(socket, "AF_UNIX"):
        raise SettingsError(f"FASTPATH_LISTEN: cannot listen on {path}: this system has no unix sockets")
    check_socket(path, "FASTPATH_LISTEN")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        before = os.umask(0o177)  # nobody comes in before the permissions are those that are asked for
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        Path(path).chmod(listener.mode)
        sock.listen(65535)
    except OSError as error:
        sock.close()
        raise SettingsError(f"FASTPATH_LISTEN: cannot listen on {path}: {error.strerror}") from None
    sock.setblocking(False)
    return sock


def bind(
    listener: Listener, settings: Settings, *, shared: bool = False, listening: bool = True
) -> list[socket.socket]:
    """Return a socket for every address that the listener's host stands for; raise SettingsError.

    ``shared`` lets other processes of this user open the same addresses; the kernel spreads new connections over
    those that listen.
    """
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
            if os.name == "posix":  # on Windows it would let another program have the same port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            # Inherited by every connection that is accepted: no system call per client.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # not on Windows, nor with macOS' Python
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, settings.unsent_bytes_max)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
            if listening:
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
