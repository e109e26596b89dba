"""The ASGI application of the site in the containers."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

from realtime.asgi import wrap

application = wrap(get_asgi_application())
