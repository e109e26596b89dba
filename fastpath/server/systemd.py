"""What systemd is told of a service of ``Type=notify``: ready, alive, stopping (sd_notify(3)); nothing without it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def tell(state: str) -> None:
    """Say ``READY=1``, ``WATCHDOG=1`` or ``STOPPING=1``; does nothing when systemd has not asked for it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    asked = os.environ.get("WATCHDOG_PID")
    if not address or (state == "WATCHDOG=1" and asked is not None and asked != str(os.getpid())):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.setblocking(False)  # the watchdog must not be what hangs
        sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
