"""What the kernel knows of a TCP connection: how far away its peer is, and why it does not take what is sent."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

try:
    import fcntl
    import termios
except ImportError:  # not on Windows
    _HAS_FCNTL = False
else:
    _HAS_FCNTL = True

_FORMAT = "=8B24I4Q6I4Q"
"""The beginning of Linux' struct tcp_info (include/uapi/linux/tcp.h), which only ever grows at its end."""

_SIZE = struct.calcsize(_FORMAT)

Network = dict[str, float]


def unread(fd: int) -> bool:
    """Return whether something has come over a socket that was not read yet; no, if it is closed."""
    if not _HAS_FCNTL:
        return _can_be_read(fd)
    try:
        return fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) != bytes(4)
    except (OSError, ValueError):
        return False


def _can_be_read(fd: int) -> bool:
    """Look at the next byte of a socket that does not block, and leave it there."""
    with suppress(OSError, ValueError), socket.socket(fileno=fd) as sock:
        try:
            return sock.recv(1, socket.MSG_PEEK) != b""
        finally:
            sock.detach()
    return False


def network(fd: int) -> Network | None:
    """Return times in ms, sizes in bytes; None for a unix socket, for who has none, and where the system does not tell.

    ``reader_limited_ms`` of ``busy_ms`` it was the peer that took nothing, for its own buffer was full; the rest is the
    line's.
    """
    if fd < 0 or not hasattr(socket, "TCP_INFO"):
        return None
    with suppress(OSError), socket.socket(fileno=fd) as sock:
        try:
            raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
        finally:
            sock.detach()
        if len(raw) == _SIZE:
            return read(raw)
    return None


def read(raw: bytes) -> Network:
    """Return the figures of such a struct."""
    values = struct.unpack(_FORMAT, raw)
    words, longs, more, last = values[8:32], values[32:36], values[36:42], values[42:]
    return {
        "rtt_ms": words[15] / 1000,
        "rtt_var_ms": words[16] / 1000,
        "retransmits": words[23],
        "unacked_segments": words[4],
        "unsent_bytes": more[2],
        "last_received_ms": words[11],
        "bytes_received": longs[3],
        "bytes_acked": longs[2],
        "delivery_bytes_per_s": last[0],
        "busy_ms": last[1] // 1000,
        "reader_limited_ms": last[2] // 1000,
    }
