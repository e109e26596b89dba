"""The ASGI application, as any Channels project has it."""

from __future__ import annotations

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chat.settings")
http = get_asgi_application()

from chat.consumers import ChatConsumer  # noqa: E402 - Django has to be ready

rooms = URLRouter([path("rooms/<slug:room>/", ChatConsumer.as_asgi())])
application = ProtocolTypeRouter({"http": http, "websocket": AllowedHostsOriginValidator(rooms)})
