"""The addresses of this repository's own project: board, login, admin, and the reusable pages at the root."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from realtime import urls
from realtime.demo import login
from realtime.demo.board import board

urlpatterns = [
    path("", board, name="board"),
    path("", include(([*urls.pages, *urls.answers], "realtime"))),
    # The same addresses under the names that they had before there was a namespace.
    path("", include(urls.pages)),
    path("", include("realtime.endpoints")),
    path("accounts/login/", login.SignIn.as_view(), name="login"),
    path("accounts/logout/", auth.LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("favicon.ico", login.favicon, name="favicon"),
]
