"""Blocking clients of the publisher port, for Spark executors, feeds and scripts (protocol.md 6)."""

from __future__ import annotations

from .publisher import Publisher, Row

__all__ = ["Publisher", "Row"]
