"""The ASGI application around Django's: what the sidecar answers over HTTP, the relay at /ws, and files under DEBUG.

A project adds one line to its own ``asgi.py``: ``application = wrap(application)``. One that has no ASGI application is
served with ``realtime.asgi:application``, which is its Django, wrapped.
"""

from __future__ import annotations

from typing import Any

from channels.routing import ProtocolTypeRouter
from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

__all__ = ["wrap"]


def wrap(application: Any) -> ProtocolTypeRouter:
    """Return ``application`` with what is forwarded and /ws before it; under DEBUG static files as well.

    Without DEBUG static files are the application's own, or a web server's in front: Django's handler would take the
    address before a middleware that has them, as WhiteNoise does, and knows no names by content. Call this when Django
    has loaded its apps, as ``get_asgi_application()`` does.
    """
    # They read settings as they are imported.
    from realtime.forwarding.application import http_application  # noqa: PLC0415
    from realtime.relay import websocket_application  # noqa: PLC0415

    if settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
        application = ASGIStaticFilesHandler(application)
    return ProtocolTypeRouter({"http": http_application(application), "websocket": websocket_application()})


def __getattr__(name: str) -> Any:
    # When asked for, so that a project which wraps an application of its own makes no second one.
    if name == "application":
        return wrap(get_asgi_application())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
