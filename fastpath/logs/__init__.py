"""The log of every process of the sidecar: its forms, levels and bounds, and the thread that writes it."""

from __future__ import annotations

from .formats import Json, Text

__all__ = ["Json", "Text"]
