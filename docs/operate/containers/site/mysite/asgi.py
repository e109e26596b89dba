"""The ASGI application of the site in the containers."""

from __future__ import annotations

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from realtime.asgi import wrap

# One image, and no web server of files beside it: those of the admin and of live data come from here.
application = wrap(ASGIStaticFilesHandler(get_asgi_application()))
