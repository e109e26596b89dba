"""A control socket's address: a path, or an address of another host behind mutual TLS (protocol.md 8.1)."""

from __future__ import annotations

import socket
import ssl
import time
from urllib.parse import parse_qs, urlsplit

TLS_SCHEME = "tls://"
OPTIONS = ("ca", "cert", "key")


def connect_control(address: str, timeout_seconds: float) -> socket.socket:
    """Open and return a connection to ``/path/to.sock`` or ``tls://host:port?ca=ca.pem&cert=own.pem&key=own.key``.

    Over TLS both sides show a certificate that the authority ``ca`` has signed. Raises OSError, also for a certificate
    that does not do, and ValueError for an address that is none.
    """
    if not address.startswith(TLS_SCHEME):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_seconds)
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        return connection
    host, port, files = parse_tls(address)
    end = time.monotonic() + timeout_seconds
    context = ssl.create_default_context(cafile=files["ca"])
    context.load_cert_chain(files["cert"], files["key"])
    plain = socket.create_connection((host, port), timeout=timeout_seconds)
    try:
        plain.settimeout(max(0.001, end - time.monotonic()))
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def parse_tls(address: str) -> tuple[str, int, dict[str, str]]:
    """Return host, port and files of a ``tls://`` address; raise ValueError, which says what is wrong with the
    address."""
    parts = urlsplit(address)
    files = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if not parts.hostname or not parts.port or set(files) != set(OPTIONS):
        raise ValueError(f"{address!r}: a control address is tls://HOST:PORT?ca=FILE&cert=FILE&key=FILE")
    return parts.hostname, parts.port, files
