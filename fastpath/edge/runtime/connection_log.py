"""The one line of the log that each connection gets, at its end; a request that is refused has one, too."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ...core.broker.observers import Source
from ...core.delivery.audience import Client
from ...core.telemetry.counters import BY_CLIENT
from ...logs.formats import event
from .connection_names import CALLER, PUBLISHER, connection_id
from .publisher_accounts import Progress

if TYPE_CHECKING:
    from .runtime import Runtime

TASK_SECONDS = 60
"""A publisher that goes sooner, with everything acknowledged, is not worth a line."""


class LoggedPublisher(Source, Protocol):
    """A publisher's connection, as its line tells of it."""

    since: int
    """Time when the publisher came, in ms."""
    name: str
    """Name under which the publisher numbers what it publishes."""
    progress: Progress


_clients = logging.getLogger("fastpath.clients")
_publishers = logging.getLogger("fastpath.publishers")


def client_closed(runtime: Runtime, client: Client, name: str, moment: int) -> None:
    """Log that a client's connection ends, for ``client.end``; the name is one of core.stats.ENDS."""
    code, reason = client.end
    event(
        _clients,
        "client closed",
        connection=connection_id(runtime, client.number),
        address=client.address,
        user=client.principal.user,
        transport=client.transport,
        code=int(code),
        name=name,
        reason=reason.removeprefix(f"{name}: "),
        seconds=_seconds(client.since, moment),
        subscriptions=client.count,
        program=client.program,
    )


def request_refused(address: str, status: int, reason: str) -> None:
    """Log that a request was answered with a status of HTTP: no WebSocket came about."""
    event(_clients, "request refused", address=address, status=status, reason=reason)


def http_closed(runtime: Runtime, number: int, address: str, requests: int, since: int, moment: int) -> None:
    """Log that a connection that spoke HTTP ends; there may be many of these each second, so that the level is
    ``debug``."""
    event(
        _clients,
        "http closed",
        logging.DEBUG,
        connection=connection_id(runtime, number, CALLER),
        address=address,
        requests=requests,
        seconds=_seconds(since, moment),
    )


def connection_refused(address: str, reason: str) -> None:
    """Log that somebody was let go before it was known what it wants."""
    event(_clients, "connection refused", address=address, reason=reason)


def publisher_closed(
    runtime: Runtime, publisher: LoggedPublisher, code: int, reason: str, name: str, moment: int
) -> None:
    """Log that a publisher's connection ends. One that was short, and all of which is acknowledged, is a task of a
    batch job: there may be many of these each second, and they are told at the level ``debug``."""
    seconds, progress = _seconds(publisher.since, moment), publisher.progress
    if runtime.broker.trail is not None:
        runtime.broker.trail.ended(publisher, int(code), reason, seconds)
    event(
        _publishers,
        "publisher closed",
        logging.DEBUG if name == BY_CLIENT and seconds < TASK_SECONDS else logging.INFO,
        connection=connection_id(runtime, publisher.number, PUBLISHER),
        address=publisher.address,
        user=publisher.principal.user if publisher.principal is not None else "",
        publisher=publisher.name,
        code=int(code),
        name=name,
        reason=reason.removeprefix(f"{name}: "),
        seconds=seconds,
        messages=progress.messages,
        unacknowledged=progress.unacknowledged,
    )


def _seconds(since: int, moment: int) -> float:
    """Return how long the connection was open, in seconds; 0 for one that was closed as soon as it had opened."""
    return max(0, moment - since) / 1000 if since else 0.0
