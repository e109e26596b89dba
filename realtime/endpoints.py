"""The HTTP endpoints for the URLconf of any project: snapshots, tokens and the server list."""

from __future__ import annotations

from django.urls import path

from realtime import api

urlpatterns = [
    path("snapshot", api.SnapshotView.as_view(), name="snapshot"),
    path("api/servers/", api.servers, name="realtime_servers"),
    path("realtime/token/", api.TokenView.as_view(), name="realtime_token"),
]
