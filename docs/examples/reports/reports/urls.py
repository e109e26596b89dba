"""The addresses."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from reports import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", views.page, name="page"),
    path("order/", views.order, name="order"),
    path("realtime/", include("realtime.urls")),
]
