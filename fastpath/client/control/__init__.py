"""Blocking clients of the control socket, for Django and its agent (protocol.md 8)."""

from __future__ import annotations

from .client import FRAME_BYTES_MAX, Control

__all__ = ["FRAME_BYTES_MAX", "Control"]
