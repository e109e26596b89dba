"""What ``path("realtime/", include("realtime.urls"))`` brings to a project: pages, health, tokens, HTTP endpoints.

The namespace is ``realtime``: ``{% url "realtime:console" %}``. ``pages`` and ``answers`` are its two halves for who
wants other addresses.
"""

from __future__ import annotations

from django.urls import URLPattern, include, path
from django.views.i18n import JavaScriptCatalog

from realtime import api, endpoints, health, views

app_name = "realtime"


def _named_below_the_namespace(pattern: URLPattern) -> URLPattern:
    """Return the same address, without the prefix that the namespace makes needless."""
    name = (pattern.name or "").removeprefix("realtime_") or None
    return URLPattern(pattern.pattern, pattern.callback, pattern.default_args, name)


pages = [
    path("monitoring/", include("realtime.monitoring.urls")),
    path("console/", views.console, name="console"),
    path("console/http/", views.http_console, name="console_http"),
    path("words.js", JavaScriptCatalog.as_view(packages=["realtime"]), name="words"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
answers = [_named_below_the_namespace(pattern) for pattern in endpoints.urlpatterns]

urlpatterns = [
    *pages,
    *(pattern for pattern in answers if pattern.name != "token"),
    path("token/", api.TokenView.as_view(), name="token"),
]
