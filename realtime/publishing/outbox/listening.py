"""Waits for rows in the outbox: PostgreSQL notifies of them, elsewhere it is looked again soon."""

from __future__ import annotations

from typing import Any, Protocol

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from realtime.publishing.outbox.writing import CHANNEL

POLL_SECONDS = 0.2
"""Seconds between two looks where nobody notifies."""

LISTEN_SECONDS = 0.5
"""A process that ends between its commit and the notification leaves rows that are found by looking."""


class Ending(Protocol):
    """An event that ends all waiting, and the process."""

    def is_set(self) -> bool:
        """Return True once the end has come."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it at most so many seconds."""


class Waker:
    """A waker for one database: ``listen`` before it is looked what is there, ``wait`` when there is nothing."""

    def __init__(self, database: str, stop: Ending) -> None:
        self._database = database
        self._stop = stop
        self._listening: BaseDatabaseWrapper | None = None

    def listen(self) -> None:
        """Hear of what is committed from now on, where that is possible; raises django.db.Error."""
        connection = connections[self._database]
        if self._listening is not None or connection.vendor != "postgresql":
            return
        own = connection.copy()
        with own.cursor() as cursor:
            cursor.execute(f"LISTEN {CHANNEL}")
        self._listening = own

    def wait(self) -> None:
        """Return soon after a commit, at the latest after ``LISTEN_SECONDS``."""
        hears: Any = getattr(getattr(self._listening, "connection", None), "notifies", None)
        if not callable(hears):  # another database; or psycopg2, which has a list of that name
            self._stop.wait(POLL_SECONDS)
            return
        with self._errors():
            for _ in hears(timeout=LISTEN_SECONDS, stop_after=1):
                pass
            for _ in hears(timeout=0):  # one for each commit
                pass

    def close(self) -> None:
        """Hear no more; ``listen`` begins again."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _errors(self) -> Any:
        """Return the driver's errors as Django's."""
        assert self._listening is not None
        return self._listening.wrap_database_errors
