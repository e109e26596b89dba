"""The recovery after a reconnection: which subjects came back without loss, which to ask for again; pure."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..message import Status


class Recovery:
    """The recovery on a connection: ``begin()`` takes the subjects with a position, ``told()`` every later status."""

    def __init__(self) -> None:
        self._first = True
        self._due: set[str] = set()
        self._recovered = False
        self._again: dict[str, float] = {}

    def begin(self, subjects: Iterable[str]) -> None:
        """Note that a new connection asks for these subjects from their positions."""
        self.lose()
        self._due = set() if self._first else set(subjects)
        self._first = False

    def told(self, status: Status, now: float) -> list[Status]:
        """Take a status of a subject and return what the program is to be told after it."""
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
        """Wait for these subjects no more; the status ``synchronised`` if the last one came back without loss."""
        before = bool(self._due)
        for subject in subjects:
            self._due.discard(subject)
            self._again.pop(subject, None)
        return [Status(name="synchronised")] if before and not self._due and self._recovered else []

    def keep(self, subjects: Container[str]) -> list[Status]:
        """Wait for no other subjects than these; returns what ``left`` does."""
        return self.left([subject for subject in (*self._due, *self._again) if subject not in subjects])

    def due(self) -> float | None:
        """Return the time at which ``again()`` has a subject; None when it will have none."""
        return min(self._again.values(), default=None)

    def again(self, now: float) -> list[str]:
        """Return the subjects to ask for again now, and forget them."""
        subjects = [subject for subject, time in self._again.items() if time <= now]
        for subject in subjects:
            del self._again[subject]
        return subjects

    def lose(self) -> None:
        """Forget what was due on the connection, which is gone."""
        self._due.clear()
        self._recovered = False
        self._again.clear()
