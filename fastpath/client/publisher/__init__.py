"""Blocking clients of the publisher port, for Spark executors, feeds and scripts (protocol.md 6)."""

from __future__ import annotations

from .publisher import Publisher, Row
from .transactions import Attempt, Committer, Stager

__all__ = ["Attempt", "Committer", "Publisher", "Row", "Stager"]
