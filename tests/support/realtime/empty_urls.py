"""URLs of a project that has included nothing of ours."""

from __future__ import annotations

urlpatterns: list[object] = []
