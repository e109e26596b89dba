"""What is answered on the statistics' own address."""

from __future__ import annotations

from django.urls import path

from realtime import health
from realtime.export.exposition import MetricsView
from realtime.outside.access import OWN
from realtime.stats import api

urlpatterns = [
    path("api/stats/", api.StatisticsView.as_view(**OWN)),
    path("api/stats/series/", api.SeriesView.as_view(**OWN)),
    path("metrics", MetricsView.as_view(**OWN)),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
]
