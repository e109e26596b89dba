"""The reasons why something may not be done now, though it may be a moment later."""

from __future__ import annotations

NOT_READY = "the rights have not arrived from Django yet; retry"
ASKED = "Django's hook is asked; it starts by itself"
"""The reason of a right about which the hook in Django has not decided yet (core/auth/hook_decisions.py)."""

AWAY = "no hook is connected; retry"
"""The same when there is nobody to ask."""

PENDING = (NOT_READY, ASKED, AWAY)
"""Reasons that are no denial."""
