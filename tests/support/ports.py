"""Ports for servers of tests that are started again and have to find theirs free."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_PORTS = range(10_240, 32_000)  # below those that the kernel gives to clients
_CHANCE = random.SystemRandom()  # not of the test's seed: processes that share it would choose the same ones


def free_port() -> int:
    """A port on which nobody listens and which no client is given by chance."""
    while True:
        port = _CHANCE.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
