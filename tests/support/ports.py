"""Ports for servers of tests that are started again and have to find theirs free."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

_PORTS = range(10_240, 32_000)  # below those that the kernel gives to clients
_CHANCE = random.SystemRandom()  # not of the test's seed: processes that share it would choose the same ones

_TAKEN = Path(tempfile.gettempdir()) / f"test-ports-{os.getuid()}"
_taken = os.open(_TAKEN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
_mine: set[int] = set()


def free_port() -> int:
    """A port on which nobody listens, which no client is given by chance, and no other test as long as this runs.

    Each port is a byte of one file, locked by the process that took it: nobody else takes it between this look and the
    moment a server listens there, also not the tests of another folder.
    """
    while True:
        port = _CHANCE.choice(_PORTS)
        if port in _mine:
            continue
        with socket.socket() as probe, suppress(OSError):
            fcntl.lockf(_taken, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            _mine.add(port)
            probe.bind(("127.0.0.1", port))
            return port
