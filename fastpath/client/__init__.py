"""The Python client: ``connect`` for asyncio, and beside it ``blocking``, ``publisher`` and ``control``.

Names are loaded when they are first used, so that a publisher in a Spark executor does not load asyncio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import (
        BadToken,
        ClientError,
        CommandRefused,
        ConnectionRejected,
        ControlRefused,
        Denied,
        Disconnected,
        Failed,
        Invalid,
        Limited,
        NoResponders,
        NotReady,
        PublishTimeout,
        QueueFull,
        RefusedMessage,
        RequestFailed,
        RequestTimeout,
        ResponderError,
        ResponderGone,
        SidecarBusy,
        SidecarSilent,
        SidecarUnavailable,
        StagingFailed,
        TooLarge,
        Unavailable,
        Unknown,
    )
    from .message import Message, Position, Presence, Reply, Request, Status
    from .past import Gap, Past
    from .subscriber.client import connect

__all__ = [
    "BadToken",
    "ClientError",
    "CommandRefused",
    "ConnectionRejected",
    "ControlRefused",
    "Denied",
    "Disconnected",
    "Failed",
    "Gap",
    "Invalid",
    "Limited",
    "Message",
    "NoResponders",
    "NotReady",
    "Past",
    "Position",
    "Presence",
    "PublishTimeout",
    "QueueFull",
    "RefusedMessage",
    "Reply",
    "Request",
    "RequestFailed",
    "RequestTimeout",
    "ResponderError",
    "ResponderGone",
    "SidecarBusy",
    "SidecarSilent",
    "SidecarUnavailable",
    "StagingFailed",
    "Status",
    "TooLarge",
    "Unavailable",
    "Unknown",
    "connect",
]

_ELSEWHERE = {"connect": ".subscriber.client", "Gap": ".past", "Past": ".past"} | dict.fromkeys(
    ("Message", "Position", "Presence", "Reply", "Request", "Status"), ".message"
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, ".errors"), __name__), name)
