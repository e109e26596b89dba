"""After a reconnection: whether every subject came back without loss, and which are to be asked for again; pure."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..message import Status


class Recovery:
    """Of one connection: ``begin()`` with the subjects that have a position, then every status by ``told()``."""

    def __init__(self) -> None:
        self._first = True
        self._due: set[str] = set()
        self._recovered = False
        self._again: dict[str, float] = {}

    def begin(self, subjects: Iterable[str]) -> None:
        """A connection opened and asks for these from where they were."""
        self.lose()
        self._due = set() if self._first else set(subjects)
        self._first = False

    def told(self, status: Status, now: float) -> list[Status]:
        """A status came: what is to be told after it."""
        subject = status.subject
        match status.name:
            case "recovered":
                self._recovered = self._recovered or subject in self._due
                return self.left([subject])
            case "subscribed" | "resynchronised":
                if subject in self._due:
                    self._due.clear()  # something may be lost: nobody is told of this connection that nothing is
                return self.left([subject])
            case "denied" | "revoked":
                return self.left([subject])
            case "not_ready":
                self._again[subject] = now + status.retry_seconds
        return []

    def left(self, subjects: Iterable[str]) -> list[Status]:
        """These are waited for no more; whether that was the last."""
        before = bool(self._due)
        for subject in subjects:
            self._due.discard(subject)
            self._again.pop(subject, None)
        return [Status(name="synchronised")] if before and not self._due and self._recovered else []

    def keep(self, subjects: Container[str]) -> list[Status]:
        """Others than these are wanted no more."""
        return self.left([subject for subject in (*self._due, *self._again) if subject not in subjects])

    def due(self) -> float | None:
        """When ``again()`` has something."""
        return min(self._again.values(), default=None)

    def again(self, now: float) -> list[str]:
        """The subjects to ask for again now."""
        subjects = [subject for subject, time in self._again.items() if time <= now]
        for subject in subjects:
            del self._again[subject]
        return subjects

    def lose(self) -> None:
        """The connection is gone."""
        self._due.clear()
        self._recovered = False
        self._again.clear()
