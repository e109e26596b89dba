"""The events that the client's state makes of arriving frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastpath.core.protocol import messages as wire

from ..message import Message, Status
from ..options import Transport


@dataclass(slots=True, frozen=True)
class Arrived:
    """A message for an owner."""

    owner: Any
    message: Message


@dataclass(slots=True, frozen=True)
class Answered:
    """The answer to the command ``id``."""

    id: int
    answer: wire.AnyAnswer


@dataclass(slots=True, frozen=True)
class Refused:
    """A subscription that will not work; it is forgotten."""

    owner: Any
    subject: str
    error: Exception


@dataclass(slots=True, frozen=True)
class Named:
    """Other servers and their weights, named by one that drains."""

    servers: list[tuple[str, int]]


@dataclass(slots=True, frozen=True)
class Interesting:
    """Subjects of what was advertised that somebody subscribes to from now on, or nobody any more."""

    subjects: list[str]
    wanted: bool


@dataclass(slots=True, frozen=True)
class Renew:
    """The moment to obtain a new token has come."""


@dataclass(slots=True, frozen=True)
class Requested:
    """Somebody asks this client."""

    asked: wire.Asked


@dataclass(slots=True, frozen=True)
class RequestOver:
    """Nobody waits any more for the reply to the request of that name; None: to any of this connection's."""

    to: str | None


@dataclass(slots=True, frozen=True)
class Probe:
    """It is to be found out whether this transport works at an address, beside the connection that stands."""

    url: str
    transport: Transport


Event = Arrived | Answered | Refused | Named | Interesting | Renew | Probe | Requested | RequestOver | Status
