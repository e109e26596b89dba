"""The ASGI application: Django with its static files, and the relay at /ws."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "realtime.settings")

# First of all this: it loads the apps, which the next import needs.
django_application = get_asgi_application()

from realtime.relay import websocket_application  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": ASGIStaticFilesHandler(django_application),
        "websocket": websocket_application(),
    }
)
