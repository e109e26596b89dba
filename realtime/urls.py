"""The addresses of the project's pages and endpoints."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from realtime import views

urlpatterns = [
    path("", views.board, name="board"),
    path("monitoring/", views.monitoring, name="monitoring"),
    path("monitoring/drain/", views.drain, name="drain_node"),
    path("console/", views.console, name="console"),
    path("", include("realtime.endpoints")),
    path("accounts/login/", views.SignIn.as_view(), name="login"),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("favicon.ico", views.favicon, name="favicon"),
]
