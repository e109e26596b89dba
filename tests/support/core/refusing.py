"""Rights that a test takes away and gives back."""

from __future__ import annotations

from fastpath.core.auth.grants import Grants, Principal


class Refusing(Grants):
    """Nobody may read what is ``denied``."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.changes = 0

    def check(self, principal: Principal, action: str, subject: str, now: int) -> str:
        """Grants."""
        del principal, action, now
        return "denied for now" if subject in self.denied else ""

    @property
    def version(self) -> int:
        """Grants."""
        return self.changes
