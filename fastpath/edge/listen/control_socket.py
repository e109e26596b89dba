"""The unix socket that Django speaks to: for this user alone, and never two sidecars at one path (protocol.md 8.1)."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from ...listen_address import SettingsError


async def open_control(path: str, control: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """Listen on the unix socket; a socket file that nobody serves any more is replaced."""
    if not hasattr(socket, "AF_UNIX"):
        told = "this system has no unix sockets; leave it empty, and listen on control+tls://127.0.0.1:…"
        raise SettingsError(f"FASTPATH_CONTROL: cannot listen on {path}: {told}")
    check_control(path)
    try:
        Path(path).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            return await asyncio.get_running_loop().create_unix_server(control, path)
        finally:
            os.umask(before)
    except OSError as error:
        raise SettingsError(f"FASTPATH_CONTROL: cannot listen on {path}: {error}") from None


def check_control(path: str) -> None:
    """Raise SettingsError when what is at the path is not the socket of a sidecar that is no more."""
    check_socket(path, "FASTPATH_CONTROL")


def check_socket(path: str, setting: str) -> None:
    """Check the unix socket of any setting in the same way."""
    file = Path(path)
    try:
        if file.exists() and not stat.S_ISSOCK(file.stat().st_mode):
            raise SettingsError(f"{setting}: {path} exists and is no socket")
        if file.exists() and _is_served(path):
            raise SettingsError(f"{setting}: another sidecar serves {path}")
    except OSError as error:
        raise SettingsError(f"{setting}: cannot listen on {path}: {error}") from None


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
