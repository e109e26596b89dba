"""Notices on MariaDB that a table was emptied by TRUNCATE, which fires no trigger: a row is gone, and no note says so.

Of each watched table two rows are known, its first and its last. One that went by a DELETE was noted in the same
transaction, so one that is gone without a note went with all others. The log itself has a note that is never deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Q, QuerySet

from entitlement import sessions
from entitlement.following import mariadb, numbering
from entitlement.following.copies import Copy, note
from entitlement.following.triggers import watched
from entitlement.models import Change, Generation

_KEPT = {"kind": Change.Kind.RULE.value, "key": "0", "time": 2**62}
"""The note that is never deleted, as it does not grow old: of a rule that there never is."""


class _Place(NamedTuple):
    """A table whose rows' ends are noted: how, and the columns of the note's key, the primary key, its end."""

    table: str
    kind: str
    key: str
    primary: str
    until: str


class Emptied:
    """The tables that were emptied, for the one thread that looks (polling.py)."""

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self._rows: dict[_Place, list[tuple[Any, ...]]] = {}
        self._generation = 0
        self._emptied: set[str] = set()
        self._kept: int | None = None

    def learn(self, connection: BaseDatabaseWrapper, compared: Collection[str]) -> None:
        """Learn which tables there are; those that are ``compared`` at each look show by that what is gone."""
        places = []
        with connection.cursor() as cursor:
            for watch in watched(connection):
                if watch.event == "DELETE" and watch.table not in compared:
                    primary = connection.introspection.get_primary_key_column(cursor, watch.table) or watch.key
                    places.append(_Place(watch.table, watch.kind, watch.key, primary, watch.until))
        self._places = places
        self._rows = {place: self._rows[place] for place in places if place in self._rows}

    def look(self, connection: BaseDatabaseWrapper, own: Collection[int]) -> set[str]:
        """Return the tables that were emptied, and for which ``told`` was not called since; ``own``: as for
        ``unnoted``."""
        # Others are known before it is looked whether these are there, so that at any time some are.
        rows, now = self._present(connection, self._places)
        for place, known in self._rows.items():
            if any(self._went_unnoted(connection, own, place, *row) for row in known):
                self._emptied.add(place.table)
        self._rows, self._generation = rows, now
        if self._log_was_emptied(connection):
            self._emptied.add(Change._meta.db_table)
        return self._emptied

    def told(self, connection: BaseDatabaseWrapper) -> None:
        """Note that everything was noted which the emptied tables may have changed."""
        # What was known of them may have been there before.
        anew = [place for place in self._places if place.table in self._emptied]
        self._rows |= self._present(connection, anew)[0]
        self._emptied.clear()

    def _present(
        self, connection: BaseDatabaseWrapper, places: list[_Place]
    ) -> tuple[dict[_Place, list[tuple[Any, ...]]], int]:
        """Return the rows that are there, each of which still is when all notes until then have this generation."""
        rows = {place: _ends(connection, place) for place in places}
        numbering.number_notes(connection)
        now = generation(connection)
        there = {place: [row for row in ends if _is_there(connection, place, row[0])] for place, ends in rows.items()}
        return there, now

    def _log_was_emptied(self, connection: BaseDatabaseWrapper) -> bool:
        kept = Change.objects.using(connection.alias).filter(**_KEPT)
        if self._kept is None or not kept.filter(pk=self._kept).exists():
            # It may have been deleted, and comes back then. Rarely, as this goes through the whole log.
            numbering.number_notes(connection)
            self._kept = kept.values_list("pk", flat=True).first()
        return self._kept is None

    def _went_unnoted(
        self, connection: BaseDatabaseWrapper, own: Collection[int], place: _Place, primary: Any, key: str
    ) -> bool:
        if _is_there(connection, place, primary):
            return False
        return not _noted_since(connection, self._generation, own).filter(kind=place.kind, key=key).exists()


def begin_log(connection: BaseDatabaseWrapper) -> None:
    """Write the note of an empty log that is never deleted."""
    if connection.vendor == mariadb.VENDOR:
        Change.objects.using(connection.alias).create(generation=generation(connection), **_KEPT)


def generation(connection: BaseDatabaseWrapper) -> int:
    """Return the database's generation; 0 when there is none."""
    return Generation.objects.using(connection.alias).values_list("value", flat=True).first() or 0


def note_emptied(connection: BaseDatabaseWrapper, tables: Collection[str], before: Copy | None) -> int:
    """Have everything sent anew, with every user of now and of ``before`` as they are; the notes' generation.

    Which sessions ended with their table, or with the log, nobody knows any more: every user's tokens end, and who is
    signed in gets new ones.
    """
    now = Copy(connection)
    changes = now.everybody() | (before.everybody() if before is not None else set())
    user = Change.Kind.USER.value
    logged = Change.objects.using(connection.alias).filter(kind=user).values_list("key", flat=True)
    changes |= {(user, key) for key in logged.distinct()}
    log, store = Change._meta.db_table, sessions.session_model()
    if {log, *([store._meta.db_table] if store else [])} & {*tables}:
        changes |= {(Change.Kind.PASSWORD.value, key) for _, key in changes}
    with transaction.atomic(using=connection.alias):
        noted = note(connection, changes, forget=True)
        if log in tables:
            begin_log(connection)
    return noted


def unnoted(
    connection: BaseDatabaseWrapper, changes: set[tuple[str, str]], since: int, own: Collection[int]
) -> set[tuple[str, str]]:
    """Return those of the changes, (kind, key), that no note after a generation tells of.

    ``own`` are the generations of what the caller has noted itself, which tells of what the caller saw before, and not
    of these.
    """
    return changes - set(_noted_since(connection, since, own).values_list("kind", "key")) if changes else changes


def _noted_since(connection: BaseDatabaseWrapper, since: int, own: Collection[int]) -> QuerySet[Change]:
    later = Q(generation__gt=since) | Q(generation=Change.PENDING)
    return Change.objects.using(connection.alias).filter(later).exclude(generation__in=own)


def _ends(connection: BaseDatabaseWrapper, place: _Place) -> list[tuple[Any, ...]]:
    """Primary key and noted key of the first and the last row; of rows that end, which nobody notes later, the last."""
    quote = connection.ops.quote_name
    primary, key, table = quote(place.primary), quote(place.key), quote(place.table)
    found = []
    with connection.cursor() as cursor:
        for order in ("ASC", "DESC"):
            last = f"{quote(place.until)} DESC LIMIT 2" if place.until else f"{primary} {order} LIMIT 1"
            lives = f"WHERE {quote(place.until)} > UTC_TIMESTAMP()" if place.until else ""
            cursor.execute(f"SELECT {primary}, CAST({key} AS CHAR) FROM {table} {lives} ORDER BY {last}")  # noqa: S608
            found += cursor.fetchall()
    return found


def _is_there(connection: BaseDatabaseWrapper, place: _Place, primary: Any) -> bool:
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT 1 FROM {quote(place.table)} WHERE {quote(place.primary)} = %s",  # noqa: S608
            [primary],
        )
        return cursor.fetchone() is not None
