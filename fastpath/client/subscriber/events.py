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
class SubscriptionRefused:
    """A subscription that will not work; it is forgotten."""

    owner: Any
    subject: str
    error: Exception


@dataclass(slots=True, frozen=True)
class NamedServers:
    """Other servers and their weights, as one that drains names them."""

    servers: list[tuple[str, int]]


@dataclass(slots=True, frozen=True)
class InterestChange:
    """Subjects of what was advertised that somebody subscribes to from now on, or nobody any more."""

    subjects: list[str]
    wanted: bool


@dataclass(slots=True, frozen=True)
class Renew:
    """The request to obtain a new token now."""


@dataclass(slots=True, frozen=True)
class RequestArrived:
    """A request that this client is to answer."""

    asked: wire.Asked


@dataclass(slots=True, frozen=True)
class RequestOver:
    """The end of a request that nobody waits for any more, by the name of its reply; None: of all on this
    connection."""

    to: str | None


@dataclass(slots=True, frozen=True)
class ProbeTransport:
    """Request to find out if this transport works at an address, beside the connection that stands."""

    url: str
    transport: Transport


Event = (
    Arrived
    | Answered
    | SubscriptionRefused
    | NamedServers
    | InterestChange
    | Renew
    | ProbeTransport
    | RequestArrived
    | RequestOver
    | Status
)
