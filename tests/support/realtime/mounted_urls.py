"""A project that has the reusable addresses below a prefix of its own."""

from django.urls import include, path

urlpatterns = [path("live/data/", include("realtime.urls"))]
