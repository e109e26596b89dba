"""The HTTP endpoints for the URLconf of any project: what the sidecar answers, tokens, the servers, the statistics."""

from __future__ import annotations

from django.urls import path, re_path

from realtime import api
from realtime.export.exposition import MetricsView
from realtime.forwarding.view import forward
from realtime.stats.api import SeriesView, StatisticsView

urlpatterns = [
    path("snapshot", forward, {"path": "snapshot"}, name="snapshot"),
    re_path(r"^(?P<path>api/(?:publish|history|presence|request|disconnect|unsubscribe))$", forward),
    path("api/schema/", forward, {"path": "api/schema/"}, name="realtime_schema"),
    re_path(r"^(?P<path>events$|session/.*)", forward),
    path("api/servers/", api.servers, name="realtime_servers"),
    path("api/servers", api.servers),  # as client ports have it
    path("api/stats/", StatisticsView.as_view(), name="realtime_stats"),
    path("api/stats/series/", SeriesView.as_view(), name="realtime_series"),
    path("metrics", MetricsView.as_view(), name="realtime_metrics"),
    path("realtime/token/", api.TokenView.as_view(), name="realtime_token"),
]
