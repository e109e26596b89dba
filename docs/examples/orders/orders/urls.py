"""The addresses."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from orders import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", views.page),
    path("order/", views.order, name="order"),
    path("advance/<int:pk>/", views.advance, name="advance"),
    path("realtime/", include("realtime.urls")),
]
