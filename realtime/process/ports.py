"""Ports that `runrealtime` is about to open: chosen where none is named, and tried before anything is started."""

from __future__ import annotations

import errno
import socket
from urllib.parse import urlsplit


class PortTaken(Exception):
    """An address cannot be listened on; the text says which and why."""


def resolve_listen(listen: str) -> str:
    """Return FASTPATH_LISTEN with a free port in place of each port 0, so that a restarted sidecar is where it was."""
    return ",".join(_resolved(url.strip()) for url in listen.split(","))


def leave_taken(listen: str, scheme: str) -> tuple[str, list[PortTaken]]:
    """Return ``listen`` without those addresses of that scheme whose port is taken, and why each was left away."""
    kept, left = [], []
    for url in listen.split(","):
        try:
            if urlsplit(url.strip()).scheme == scheme:
                try_listen(url)
        except PortTaken as error:
            left.append(error)
        else:
            kept.append(url)
    return ",".join(kept), left


def try_listen(listen: str) -> None:
    """Raise PortTaken if the sidecar could not open one of its addresses."""
    for url in listen.split(","):
        parts = urlsplit(url.strip())
        if parts.port:
            try_port(parts.hostname or "", parts.port)


def try_port(host: str, port: int) -> int:
    """Return the port, or a free one for 0; raise PortTaken if it cannot be listened on."""
    address = "" if host == "*" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            why = "is in use by another program" if error.errno == errno.EADDRINUSE else f"cannot be opened: {error}"
            raise PortTaken(f"port {port} of {host} {why}") from None
        return int(probe.getsockname()[1])


def _resolved(url: str) -> str:
    parts = urlsplit(url)
    if parts.port != 0:
        return url
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return parts._replace(netloc=f"{shown}:{try_port(host, 0)}").geturl()
