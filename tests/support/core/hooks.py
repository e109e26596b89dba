"""A connection whose hook the test plays."""

from __future__ import annotations

from typing import Any

from fastpath.core.auth.hook_decisions import HookDecisions, HookState
from fastpath.core.auth.hook_questions import CONNECT, HookReply, Key


class Connection:
    """A party that follows some subjects, and notes what it is told."""

    def __init__(self, asking: HookDecisions, *follows: str) -> None:
        self.follows = set(follows)
        self.told: list[tuple[str, list[str], HookReply]] = []
        self.failed = False
        self.raises = self.unknown = False
        self.asked = HookState(asking, self)

    waits = False

    def facts(self) -> dict[str, Any]:
        """A name."""
        if self.unknown:
            raise TypeError("nothing can be said of it")
        return {"user": "ann", "token": "t"}

    def uses(self, key: Key, *, strictly: bool = False) -> bool:
        """What it follows."""
        del strictly
        return key[0] == CONNECT or key[1] in self.follows

    def parks(self, command: Any, data: bytes, now: int) -> bool:
        """No command of this connection waits."""
        del command, data, now
        return False

    def fail(self) -> None:
        """Noted."""
        self.failed = True

    def answered(self, event: str, subjects: list[str], reply: HookReply, now: int) -> bool:
        """Noted."""
        del now
        if self.raises:
            raise ValueError("a fault")
        self.told.append((event, subjects, reply))
        return True
