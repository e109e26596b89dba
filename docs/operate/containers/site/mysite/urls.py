"""The addresses of the site in the containers."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("realtime/", include("realtime.urls"))]
