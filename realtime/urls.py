"""The addresses of the project's pages and endpoints."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from realtime import health, views

urlpatterns = [
    path("", views.board, name="board"),
    path("monitoring/", include("realtime.monitoring.urls")),
    path("console/", views.console, name="console"),
    path("", include("realtime.endpoints")),
    path("accounts/login/", views.SignIn.as_view(), name="login"),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("favicon.ico", views.favicon, name="favicon"),
]
