"""What a connection is called, in the log, the audit, the pages and to hooks: a name that no other connection of the
node has, now or later."""

from __future__ import annotations

import os
from typing import NamedTuple

from ...core.auth.grants import Principal
from ...core.broker.observers import Source
from ...core.delivery.audience import Client
from ...core.protocol.errors import InvalidMessage
from .runtime import Runtime

NUMBER_MAX = 1 << 53
"""No worker, process or connection has a number near it."""

PUBLISHER = "p"
"""Stands before the number of a publisher's connection."""

CALLER = "h"
"""Stands before the number of a connection that speaks HTTP."""


class Name(NamedTuple):
    """``WORKER.PID.NUMBER``, or ``WORKER.PID.pNUMBER`` of a publisher: the process' id tells a worker from the one that
    takes its place, which counts from 1 again."""

    worker: int
    pid: int
    number: int
    publisher: bool = False

    @classmethod
    def parse(cls, text: object) -> Name:
        """Read a name; raise InvalidMessage for what is no such name."""
        parts = text.split(".") if isinstance(text, str) and len(text) <= 64 and text.isascii() else []
        if len(parts) == 3:
            digits = (parts[0], parts[1], parts[2].removeprefix(PUBLISHER))
            if all(map(str.isdigit, digits)):
                worker, pid, number = map(int, digits)
                if max(worker, pid, number) <= NUMBER_MAX:
                    return cls(worker, pid, number, digits[2] != parts[2])
        raise InvalidMessage("invalid", "a connection is called WORKER.PID.NUMBER, as clients and publishers tell")

    @property
    def here(self) -> bool:
        """True if the name is that of a connection of this process, open or closed."""
        return self.pid == os.getpid()


class Caller:
    """The caller over HTTP, as the source of what is published (core/broker/observers.py)."""

    __slots__ = ("address", "number", "principal")

    def __init__(self, number: int, address: str, principal: Principal | None) -> None:
        self.number = number
        self.address = address
        self.principal = principal


def connection_id(runtime: Runtime, number: int, kind: str = "") -> str:
    """Return the name of a client of this process, or with the kind ``p`` of a publisher, ``h`` of a caller; empty for
    who was never let in."""
    if not number:
        return ""
    return f"{runtime.workers.number}.{os.getpid()}.{kind}{number}"


def source_id(runtime: Runtime, source: Source | None) -> str:
    """Return the name of who publishes; empty for Django."""
    if source is None:
        return ""
    if isinstance(source, Client):
        return connection_id(runtime, source.number)
    return connection_id(runtime, source.number, CALLER if isinstance(source, Caller) else PUBLISHER)
