"""Looks whether the triggers are there, and while some are missing compares the tables itself and notes what changed.

So a change of rights reaches the nodes within a second also after a migration that went wrong half-way, a restored
backup or a trigger that somebody has dropped. The agents (agent.py) read what is noted, and tell their nodes when it
cannot be relied on.
"""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error as DatabaseFailure
from django.db import OperationalError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.following import mariadb, numbering, triggers
from entitlement.following.copies import Copy, note
from entitlement.following.migrating import begin_generations
from entitlement.following.truncation import Emptied, generation, note_emptied, unnoted
from entitlement.models import Change, Rule
from fastpath.awake import AwakeClock

POLL_SECONDS = 0.2
"""Seconds between two looks whether the triggers are there, and two comparisons while they are not."""

COPY_SECONDS = 60.0
"""Seconds that a copy may be old with which a comparison begins: what changed before the first look counts as well."""

COPY_SHARE = 100
"""A copy is taken so seldom that it takes a hundredth of the time at most, so that large tables have an older one."""

INSTALL_SECONDS = 5.0
"""Seconds that triggers are missing before they are installed, and between two tries: a migration may be at work."""

INSTALL_WAIT_MS = 200
"""Milliseconds that the installation waits on PostgreSQL for a table that is in use: others wait behind it."""

LATE_SECONDS = 2.0
"""Seconds since the last look began after which it would not be seen in time that triggers are missing.

Time in which this process did not run is not counted: when it runs again it looks at once."""

FOLLOWED_SECONDS = 1.0
"""A change of rights is to have reached the clients by then."""

PUSH_SECONDS = 0.3
"""Seconds that an agent takes to find a note and to send it."""

_log = logging.getLogger("entitlement.polling")


def comparing_late(since_seconds: float, look_seconds: float) -> str:
    """Return the reason why comparing takes longer than FOLLOWED_SECONDS; empty where it does not.

    ``since_seconds`` is how long ago the last look began, ``look_seconds`` how long it took. What changes right behind
    it is found at the end of the next one.
    """
    takes = max(since_seconds, 2 * look_seconds + POLL_SECONDS) + PUSH_SECONDS
    if takes <= FOLLOWED_SECONDS:
        return ""
    return f"triggers are missing, and comparing the tables takes long: a change may take {takes:.1f} s"


class Poll:
    """The looks of all agents of a process; ``run`` returns when the stop event is set."""

    def __init__(self, stop_event: threading.Event) -> None:
        self._stop = stop_event
        self._database = connections[router.db_for_write(Rule)].alias
        self._wanted: frozenset[str] = frozenset()
        self._upkeep_at = 0.0
        self._copy: Copy | None = None
        self._copy_at = 0.0
        self._copied_generation = 0
        self._own: set[int] = set()
        self._emptied = Emptied()
        self._cascades: dict[str, str] = {}
        self._polling = False
        self._install_at = 0.0
        self._refused = ""
        self._awake = AwakeClock(2 * POLL_SECONDS, time.monotonic())
        self._awake_lock = threading.Lock()
        self._looked_at = self._awake.time
        self._look_seconds = 0.0
        self._comparing = False
        self._failure = ""
        self.began = threading.Event()
        """Set with the first look, before which nobody should rely on it."""
        self.missing = 0
        """Number of triggers that are missing."""

    def run(self) -> None:
        """Look until told to stop."""
        try:
            while not self._stop.is_set():
                self._attempt()
                self._stop.wait(POLL_SECONDS)
        finally:
            connections[self._database].close()

    def trouble(self) -> str:
        """Return the reason why changes of rights may take longer than a second to be noted; empty when there is
        none."""
        late = self._awake_time() - self._looked_at
        if late >= LATE_SECONDS:
            return self._failure or f"Django has not looked for changes for {late:.0f} s"
        return comparing_late(late, self._look_seconds) if self._comparing else ""

    def _awake_time(self) -> float:
        """Return how long this process has run (s), as the agents and each look find it."""
        with self._awake_lock:
            self._awake.tick(time.monotonic())
            return self._awake.time

    def _attempt(self) -> None:
        began, awake = time.monotonic(), self._awake_time()
        try:
            self._look(connections[self._database], began)
        except Exception as error:  # whatever it is must not end this thread: the nodes are told
            connections[self._database].close()
            failure = f"Django cannot look for changes of rights: {error}".strip()
            if failure != self._failure:
                _log.log(
                    logging.WARNING if isinstance(error, DatabaseFailure) else logging.ERROR,
                    "%s; trying again",
                    failure,
                    exc_info=not isinstance(error, DatabaseFailure),
                )
            self._failure = failure
        else:
            self.began.set()
            self._looked_at = awake
            self._look_seconds = time.monotonic() - began
            self._failure = ""

    def _look(self, connection: BaseDatabaseWrapper, now: float) -> None:
        if now >= self._upkeep_at:
            connection.close()  # it may be another file now
        have = triggers.present(connection).keys()
        if now >= self._upkeep_at or not self._wanted <= have:
            self._wanted = frozenset(triggers.wanted(connection))
            self._upkeep_at = now + COPY_SECONDS
            self._look_for_cascades(connection)
        absent = self._wanted - have
        if self._wanted and not absent and not generation(connection) and begin_generations(connection):
            _log.warning("the database was emptied, with the log of changes: no token of before gives a right")
        self.missing = len(absent)
        self._comparing = bool(absent) or self._polling
        if absent and not self._polling:
            self._begin(connection, sorted(absent), now)
        elif self._polling:
            # Once more when they are back: what changed until then is not in the log.
            copy = Copy(connection)
            note(connection, copy.changes_since(self._copy) if self._copy else ())
            self._copy = copy
        elif connection.vendor == mariadb.VENDOR:
            self._look_beside_triggers(connection, now)
        elif now >= self._copy_at:
            self._hold(Copy(connection), now)
        if self._polling and not absent:
            _log.info("the triggers are there again")
            self._polling = False
        elif absent and now >= self._install_at:
            self._install(connection, now)

    def _hold(self, copy: Copy, now: float) -> None:
        """Compare with this copy from now on: what had changed before it is noted."""
        self._copy = copy
        self._copy_at = now + max(COPY_SECONDS, COPY_SHARE * (time.monotonic() - now))

    def _look_for_cascades(self, connection: BaseDatabaseWrapper) -> None:
        """Compare the tables at each look while there are such foreign keys, and else once a minute."""
        if connection.vendor != mariadb.VENDOR:
            return
        cascades = mariadb.cascades(connection, triggers.watched_rows(connection))
        if cascades and cascades != self._cascades:
            _log.error(
                "the database itself changes rows (%s): the tables are compared all the time", "; ".join(cascades)
            )
        self._cascades = cascades
        self._emptied.learn(connection, compared=cascades.values())

    def _look_beside_triggers(self, connection: BaseDatabaseWrapper, now: float) -> None:
        """Look for changes that fire no trigger on MariaDB: TRUNCATE, and what the database does to a foreign key."""
        emptied = self._emptied.look(connection, self._own)
        if emptied:
            _log.warning("%s was emptied by TRUNCATE: everything is sent anew", " and ".join(sorted(emptied)))
            self._own.add(note_emptied(connection, emptied, self._copy))
            self._emptied.told(connection)
        elif now < self._copy_at and not self._cascades:
            return
        numbering.number_notes(connection)
        since = generation(connection)
        copy = Copy(connection)
        if self._copy is None:
            # The rules may have been emptied while nobody looked: all are sent once.
            note(connection, (), forget=True)
        else:
            changed = copy.changes_since(self._copy)
            changes = unnoted(connection, changed, self._copied_generation, self._own)
            self._own = {own for own in self._own if own > self._copied_generation}
            if self._cascades:
                # A note of the same may be of before, and read. Not a password: none is theirs, and it ends new tokens.
                changes |= {(kind, key) for kind, key in changed if kind != Change.Kind.PASSWORD}
            elif changes:
                _log.warning("%d changes were noted by no trigger", len(changes))
            if changes:
                self._own.add(note(connection, changes))
        self._hold(copy, now)
        self._copied_generation = since

    def _begin(self, connection: BaseDatabaseWrapper, absent: list[str], now: float) -> None:
        _log.error(
            "%d triggers are missing (%s): the tables are compared until they are there", len(absent), ", ".join(absent)
        )
        copy = Copy(connection)
        # What changed before the first copy is not known: everything is sent anew, with every user as they are now.
        changes = copy.changes_since(self._copy) if self._copy is not None else copy.everybody()
        note(connection, changes, forget=True)
        # Not before it is noted: where the database takes nothing now, the next look finds the same again.
        self._copy = copy
        self._polling = True
        self._install_at = now + INSTALL_SECONDS

    def _install(self, connection: BaseDatabaseWrapper, now: float) -> None:
        """Bring them back, if this database user may; another version of the project may want others."""
        self._install_at = now + INSTALL_SECONDS
        try:
            triggers.install(connection, add_only=True, wait_ms=INSTALL_WAIT_MS)
        except OperationalError as error:
            _log.info("the missing triggers could not be installed, perhaps a table is in use; trying again: %s", error)
        except DatabaseFailure as error:
            refused = str(error).strip()
            if refused != self._refused:
                _log.error(
                    "the missing triggers cannot be installed from here (%s): run migrate; until then the tables are "
                    "compared, five times a second",
                    refused,
                )
            self._refused = refused
        else:
            self._refused = ""
            _log.info("the missing triggers were installed")
