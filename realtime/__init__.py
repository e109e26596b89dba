"""Live data for a Django project: publish(), snapshots, tokens, pages and one command that runs it all.

Laws:

* Django decides and shows; of what publishers send it carries nothing, and while it is down data flows on.
* The sidecar is known by its sockets and its client alone, Spark as a process that is started.
* A setting that cannot be used is named by `manage.py check`, before it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entitlement.permissions.refresh import refresh_rights
    from fastpath.client import (
        NoResponders,
        Reply,
        RequestFailed,
        RequestTimeout,
        ResponderError,
        ResponderGone,
        SidecarUnavailable,
    )
    from realtime.publishing.publisher import (
        MessageTooLarge,
        NotEncodable,
        OutboxFull,
        Position,
        Publication,
        PublishFailed,
        PublishManyFailed,
        PublishRefused,
        ShuttingDown,
        apublish,
        apublish_many,
        apublish_to_user,
        aremove,
        publish,
        publish_many,
        publish_to_user,
        remove,
        user_subject,
    )
    from realtime.publishing.signals import publish_failed, published
    from realtime.requests.requesting import request
    from realtime.requests.responders import respond

__all__ = [
    "MessageTooLarge",
    "NoResponders",
    "NotEncodable",
    "OutboxFull",
    "Position",
    "Publication",
    "PublishFailed",
    "PublishManyFailed",
    "PublishRefused",
    "Reply",
    "RequestFailed",
    "RequestTimeout",
    "ResponderError",
    "ResponderGone",
    "ShuttingDown",
    "SidecarUnavailable",
    "apublish",
    "apublish_many",
    "apublish_to_user",
    "aremove",
    "publish",
    "publish_failed",
    "publish_many",
    "publish_to_user",
    "published",
    "refresh_rights",
    "remove",
    "request",
    "respond",
    "user_subject",
]

_ELSEWHERE = (
    {
        "refresh_rights": "entitlement.permissions.refresh",
        "request": "realtime.requests.requesting",
        "respond": "realtime.requests.responders",
    }
    | dict.fromkeys(("published", "publish_failed"), "realtime.publishing.signals")
    | dict.fromkeys(
        ("NoResponders", "Reply", "RequestFailed", "RequestTimeout", "ResponderError", "ResponderGone"),
        "fastpath.client",
    )
)
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Lazily, because Django imports this package before its settings are there.
        if name in __all__:
            return getattr(import_module(_ELSEWHERE.get(name, "realtime.publishing.publisher")), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
