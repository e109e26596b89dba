"""The ASGI application of the statistics' own address: the project's Django with other addresses, and no pages."""

from __future__ import annotations

from django.conf import settings
from django.core.asgi import get_asgi_application

from realtime.conf import conf
from realtime.outside.names import OwnNames, own_names

# Before Django is set up, in a process of its own: sessions, cross-site checks and the redirect to HTTPS are for pages.
settings.ROOT_URLCONF = "realtime.outside.urls"
settings.MIDDLEWARE = [
    "realtime.outside.names.OwnNames",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
]
settings.SECURE_SSL_REDIRECT = False
# OwnNames looks at the name instead: Django's list has no word for every address. What a proxy is said to have been
# asked for counts for nothing, as a page could say it.
OwnNames.names = ["*"] if conf.stats_password else own_names(settings.ALLOWED_HOSTS, conf.stats_listen)
settings.ALLOWED_HOSTS = ["*"]
settings.USE_X_FORWARDED_HOST = False

application = get_asgi_application()
