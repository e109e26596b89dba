"""Users of a sidecar that asks rules."""

from __future__ import annotations

from typing import Any


def user(uid: str, generation: int, **changes: Any) -> dict[str, Any]:
    """A user of protocol.md 8.3."""
    plain = {"active": True, "superuser": False, "groups": []}
    return {"uid": uid, "user": uid} | plain | changes | {"generation": generation}
