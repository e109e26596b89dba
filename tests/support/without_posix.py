"""Runs the sidecar without what only POSIX has, as on Windows: `python -m tests.support.without_posix`, uvloop as well.

What is taken away is gone before the first module of the product is imported. Python's own library, which knows both
systems by what it finds when it is imported, is there already and keeps what it needs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import importlib
import os
import select
import selectors
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import uuid
from types import ModuleType
from typing import Any, NoReturn

COMMAND = [sys.executable, "-m", "tests.support.without_posix"]
MODULES = ("uvloop", "fcntl", "resource", "pwd", "grp", "termios", "pty", "syslog")
NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: (
        "fork", "getuid", "geteuid", "getgid", "getegid", "setuid", "setgid", "setresuid", "setresgid", "fchmod",
        "fchown", "chown", "pread", "pwrite", "readv", "writev", "fdatasync", "sched_getaffinity", "sysconf", "uname",
        "getpgid", "setsid", "mkfifo", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK",
    ),
    signal: ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGCHLD", "SIGSTOP", "SIGCONT", "pthread_sigmask"),
    socket: ("AF_UNIX", "SO_REUSEPORT", "SO_PEERCRED", "TCP_NOTSENT_LOWAT", "TCP_INFO", "TCP_USER_TIMEOUT"),
    select: ("epoll", "poll", "PIPE_BUF"),
}  # fmt: skip
NEEDED = (concurrent.futures.thread, selectors, ssl, subprocess, tempfile, uuid)
"""They look for what the system has when they are imported."""


def _absent(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError


def take_away() -> None:
    """Leave what Windows has; sockets are no files there, and a loop watches nothing but sockets."""
    family, pair = socket.AF_UNIX, socket.socketpair
    socket.socketpair = lambda *_: pair(family)  # type: ignore[assignment]
    read, write = os.read, os.write
    os.read = lambda fd, size: _no_socket(fd) or read(fd, size)  # type: ignore[assignment]
    os.write = lambda fd, data: _no_socket(fd) or write(fd, data)  # type: ignore[assignment]
    loop = asyncio.SelectorEventLoop
    for name in ("add_signal_handler", "remove_signal_handler", "create_unix_server", "create_unix_connection"):
        setattr(loop, name, _absent)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


def _no_socket(fd: int) -> None:
    if (os.fstat(fd).st_mode & 0o170000) == 0o140000:
        raise OSError(9, "a socket is no file")


if __name__ == "__main__":
    take_away()
    sys.exit(importlib.import_module("fastpath.__main__").main())
