"""The ASGI application around Django's: static files, what the sidecar answers over HTTP, and the relay at /ws.

A project adds one line to its own ``asgi.py``: ``application = wrap(application)``. One that has no ASGI application is
served with ``realtime.asgi:application``, which is its Django, wrapped.
"""

from __future__ import annotations

from typing import Any

from channels.routing import ProtocolTypeRouter
from django.apps import apps
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

__all__ = ["wrap"]


def wrap(application: Any) -> ProtocolTypeRouter:
    """``application``, which answers everything but static files, what is forwarded, and /ws.

    To be called when Django has loaded its apps, as ``get_asgi_application()`` does.
    """
    # They read settings as they are imported.
    from realtime.forwarding.application import http_application  # noqa: PLC0415
    from realtime.relay import websocket_application  # noqa: PLC0415

    if apps.is_installed("django.contrib.staticfiles"):
        application = ASGIStaticFilesHandler(application)
    return ProtocolTypeRouter({"http": http_application(application), "websocket": websocket_application()})


def __getattr__(name: str) -> Any:
    # When asked for, so that a project which wraps an application of its own makes no second one.
    if name == "application":
        return wrap(get_asgi_application())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
