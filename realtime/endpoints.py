"""The HTTP endpoints for the URLconf of any project: snapshots, tokens, the server list and the statistics."""

from __future__ import annotations

from django.urls import path

from realtime import api
from realtime.export.exposition import MetricsView
from realtime.stats.api import SeriesView, StatisticsView

urlpatterns = [
    path("snapshot", api.SnapshotView.as_view(), name="snapshot"),
    path("api/servers/", api.servers, name="realtime_servers"),
    path("api/stats/", StatisticsView.as_view(), name="realtime_stats"),
    path("api/stats/series/", SeriesView.as_view(), name="realtime_series"),
    path("metrics", MetricsView.as_view(), name="realtime_metrics"),
    path("realtime/token/", api.TokenView.as_view(), name="realtime_token"),
]
