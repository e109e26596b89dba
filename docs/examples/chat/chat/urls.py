"""The page of a room."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView, TemplateView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(url="/rooms/hall/")),
    path("rooms/<slug:room>/", TemplateView.as_view(template_name="room.html")),
]
