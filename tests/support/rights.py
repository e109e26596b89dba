"""Gives a sidecar in mode ``rules`` its rights without Django (protocol.md 8.2)."""

from __future__ import annotations

from typing import Any

from fastpath.client.control.client import Control


def rule(number: int, who: str, pattern: str, action: str = "both", allow: bool = True) -> dict[str, Any]:
    """A rule without bounds in time; ``who`` is ``user:<uid>``, ``group:<gid>``, ``everyone`` or ``anonymous``."""
    return {"id": number, "who": who, "pattern": pattern, "action": action, "allow": allow, "start": None, "end": None}


def load_rights(path: str, *rules: dict[str, Any], generation: int = 1) -> None:
    """Put a full set of rules in force at the control socket."""
    with Control(path) as control:
        control.rules_begin(generation)
        control.rules_chunk(rules)
        control.rules_commit(generation)
