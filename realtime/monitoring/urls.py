"""The addresses of the monitoring pages, and of what their scripts ask for."""

from __future__ import annotations

from django.urls import path

from realtime.monitoring import actions, attention, clients, overview, subjects, tracing

urlpatterns = [
    path("", overview.overview, name="monitoring"),
    path("drain/", overview.drain, name="drain_node"),
    path("data/attention/", attention.attention, name="monitoring_data_attention"),
    path("clients/", clients.clients, name="monitoring_clients"),
    path("clients/ping/", actions.ping, name="monitoring_ping"),
    path("clients/disconnect/", actions.disconnect, name="monitoring_disconnect"),
    path("clients/<int:node>/<str:connection>/", clients.client, name="monitoring_client"),
    path("subjects/", subjects.subjects, name="monitoring_subjects"),
    path("subjects/publish/", actions.publish_test, name="monitoring_publish"),
    path("trace/", tracing.trace, name="monitoring_trace"),
    path("trace/begin/", tracing.begin, name="monitoring_trace_begin"),
    path("trace/stop/", tracing.stop, name="monitoring_trace_stop"),
    path("data/tree/", subjects.tree, name="monitoring_data_tree"),
    path("data/trace/", tracing.events, name="monitoring_data_trace"),
]
