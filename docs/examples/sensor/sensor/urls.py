"""The page of the temperatures."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import TemplateView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", TemplateView.as_view(template_name="sensors.html")),
    path("realtime/", include("realtime.urls")),
]
