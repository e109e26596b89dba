"""What waits until a time: found by its name, and given up when the time is over."""

from __future__ import annotations

from typing import Generic, TypeVar

STEP_MS = 100
"""The grid of times: what is due is given up to so much later."""

T = TypeVar("T")


class Timed(Generic[T]):
    """Things by name, each until a time in ms of any clock that does not go back. Nothing is left of what was taken."""

    def __init__(self) -> None:
        self._things: dict[str, tuple[T, int]] = {}
        self._steps: dict[int, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._things)

    def put(self, name: str, thing: T, until: int) -> None:
        """Keep something under a name, which must be new."""
        step = until // STEP_MS + 1
        self._things[name] = thing, step
        names = self._steps.get(step)
        if names is None:
            names = self._steps[step] = {}
        names[name] = None

    def get(self, name: str) -> T | None:
        """Return the thing of that name, if it still waits."""
        found = self._things.get(name)
        return None if found is None else found[0]

    def take(self, name: str) -> T | None:
        """Wait no more for the thing of that name; it, if it waited."""
        found = self._things.pop(name, None)
        if found is None:
            return None
        thing, step = found
        names = self._steps[step]
        del names[name]
        if not names:
            del self._steps[step]
        return thing

    def items(self) -> list[tuple[str, T]]:
        """Return all that waits."""
        return [(name, thing) for name, (thing, _) in self._things.items()]

    def due(self, now: int) -> list[tuple[str, T]]:
        """Take what waits no longer."""
        over = sorted(step for step in self._steps if step <= now // STEP_MS)
        return [(name, self._things.pop(name)[0]) for step in over for name in self._steps.pop(step)]
