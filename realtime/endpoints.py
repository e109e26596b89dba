"""The HTTP endpoints for the URLconf of any project: snapshots and tokens."""

from __future__ import annotations

from django.urls import path

from realtime import api

urlpatterns = [
    path("snapshot", api.SnapshotView.as_view(), name="snapshot"),
    path("realtime/token/", api.TokenView.as_view(), name="realtime_token"),
]
