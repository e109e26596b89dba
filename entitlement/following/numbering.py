"""Gives what triggers have noted its generation: who asks for the generation numbers all that is committed.

A trigger that raised the generation would lock its row until the end of the transaction: everybody else who changes a
right would wait for it, and two could wait for each other. So on PostgreSQL and MariaDB a note has the generation
``Change.PENDING`` at first, and locks nothing that others need. It is seen with its commit, whatever its place in the
table; whoever asks for the generation then gives it the next one. That is never lower than what a reader of the changed
rows has seen before, which is all that a generation has to say. SQLite has one writer at a time: its triggers number.

Notes of many rows are numbered a slice at a time, and those of others come first in each. What fits into a slice is
numbered together, so that nobody sees half of a transaction. Of each key the last note stays: all that a reader needs.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Min, QuerySet

from entitlement.following import mariadb
from entitlement.following.watch import NUMBERING
from entitlement.models import Change, DeletedChange, Generation

SLICE = 500
"""Notes that are numbered with one generation, and as many of who has noted more than that.

Those of rules and options are never told apart."""

WRITERS = 250
"""Transactions that are looked at for one slice."""

BATCH = 500
"""Notes that one statement is about."""

_AT_ONCE = (Change.Kind.RULE, Change.Kind.OPTIONS)

_Item = TypeVar("_Item")

_NUMBERED_BY_TRIGGERS = "sqlite"


def number_notes(connection: BaseDatabaseWrapper) -> bool:
    """Give what was noted and committed the next generation, a slice of it at most; whether there is more.

    In a transaction nothing happens, as the row of the generation would stay locked until its end.
    """
    return not connection.in_atomic_block and number_now(connection)


def number_now(connection: BaseDatabaseWrapper) -> bool:
    """Number what is noted, also in a transaction."""
    alias = connection.alias
    if connection.vendor == _NUMBERED_BY_TRIGGERS or not (_pending(alias).exists() or _deleted(connection).exists()):
        return False
    with transaction.atomic(using=alias):
        # Locked before the notes are looked up, so that nobody else numbers the same.
        generations = Generation.objects.using(alias)
        before = generations.select_for_update().values_list("value", flat=True).first()
        if before is None:
            return False
        deleted = list(_deleted(connection)[:SLICE])
        with _sorting_nothing(connection):
            keys, has_more = _slice(alias)
        if keys or deleted:
            generations.update(value=before + 1)
            _set_generation(connection, _superseded(alias, keys), Change.FORGOTTEN)
            with _saying_so(connection):
                _set_generation(connection, keys, before + 1)
            _put_back(connection, deleted, before + 1)
    return has_more or len(deleted) == SLICE


@contextmanager
def _sorting_nothing(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """PostgreSQL may know nothing yet of a million new notes, and sort them all to find the first of them."""
    if connection.vendor != "postgresql":
        yield
        return
    options = ("enable_bitmapscan", "enable_seqscan", "enable_sort")
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET LOCAL {option} = off" for option in options))
    yield
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET LOCAL {option} TO DEFAULT" for option in options))


@contextmanager
def _saying_so(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let an UPDATE number notes while the block runs (triggers.py)."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL {NUMBERING} TO 'on'")
            yield
            cursor.execute(f"SET LOCAL {NUMBERING} TO 'off'")
        return
    variable = NUMBERING.replace(".", "_")
    with connection.cursor() as cursor:
        cursor.execute(f"SET @{variable} = 1")
        try:
            yield
        finally:
            cursor.execute(f"SET @{variable} = 0")


def _pending(alias: str) -> QuerySet[Change]:
    return Change.objects.using(alias).filter(generation=Change.PENDING)


def _deleted(connection: BaseDatabaseWrapper) -> QuerySet[DeletedChange]:
    """Return what was deleted from the log and is to come back; where triggers can put it back themselves there is
    none."""
    rows = DeletedChange.objects.using(connection.alias)
    return rows.all() if connection.vendor == mariadb.VENDOR else rows.none()


def _put_back(connection: BaseDatabaseWrapper, deleted: Collection[DeletedChange], generation: int) -> None:
    now = int(time.time() * 1000)
    Change.objects.using(connection.alias).bulk_create(
        Change(generation=generation, kind=one.kind, key=one.key, time=max(one.time, now)) for one in deleted
    )
    if deleted:
        mariadb.delete_keys(connection, DeletedChange, [one.pk for one in deleted])


def _slice(alias: str) -> tuple[list[int], bool]:
    """Return the keys of the notes whose turn it is, and True if others are left."""
    pending = _pending(alias)
    # Their order does not matter: by the index that has them.
    keys = list(pending.values_list("id", flat=True)[: SLICE + 1])
    if len(keys) <= SLICE:
        return keys, False
    newest = {
        writer: list(pending.filter(writer=writer).order_by("-id").values_list("id", "kind")[: SLICE + 1])
        for writer in islice(_writers(pending), WRITERS)
    }
    found: list[int] = []
    # The shortest first, each as a whole: nobody waits for who has noted more.
    for own in sorted((own for own in newest.values() if len(own) <= SLICE), key=len):
        if len(found) + len(own) <= SLICE:
            found += [key for key, _ in own]
    long = [writer for writer, own in newest.items() if len(own) > SLICE][:SLICE]
    for writer in long:
        found += _share(pending.filter(writer=writer), newest[writer], SLICE // len(long))
    return found, True


def _writers(pending: QuerySet[Change]) -> Iterator[int | None]:
    """Yield the writers of what is pending; None for notes whose writer is not known. Each is a look at the index."""
    if pending.filter(writer=None).exists():
        yield None
    writer = pending.aggregate(first=Min("writer"))["first"]
    while writer is not None:
        yield writer
        writer = pending.filter(writer__gt=writer).aggregate(first=Min("writer"))["first"]


def _share(noted: QuerySet[Change], newest: list[tuple[int, str]], most: int) -> list[int]:
    """Return the keys of the newest of one writer's many notes, as on MariaDB several transactions may be one.

    Those of rules and options come when nothing else is left: a rule that comes with the end of a membership must not
    be in force before it.
    """
    others = [key for key, kind in newest if kind not in _AT_ONCE]
    if not others:
        others = list(noted.exclude(kind__in=_AT_ONCE).order_by("-id").values_list("id", flat=True)[:most])
    return others[:most] or list(noted.values_list("id", flat=True))


def _superseded(alias: str, keys: list[int]) -> list[int]:
    """Return the keys of what need not be listed any more: earlier notes of the same, numbered or among these."""
    notes = Change.objects.using(alias)
    last: dict[str, dict[str, int]] = {}
    gone = []
    for some in _batches(sorted(keys)):
        for number, kind, key in notes.filter(pk__in=some).order_by("id").values_list("id", "kind", "key"):
            of_kind = last.setdefault(kind, {})
            if key in of_kind:
                gone.append(of_kind[key])
            of_kind[key] = number
    for kind, of_kind in last.items():
        for some in _batches(of_kind):
            # Not by generation as well: the database might take another index.
            found = notes.filter(kind=kind, key__in=some).values_list("id", "generation")
            gone += [number for number, generation in found if generation > Change.PENDING]
    return gone


def _set_generation(connection: BaseDatabaseWrapper, keys: list[int], generation: int) -> None:
    """Set the generation of notes that are not forgotten yet; those that become so are no news.

    By primary keys: any other way might wait on MariaDB for the notes of transactions that are still open.
    """
    table = connection.ops.quote_name(Change._meta.db_table)
    by_key = " FORCE INDEX (PRIMARY)" if connection.vendor == mariadb.VENDOR else ""
    for some in _batches(keys):
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {table}{by_key} SET generation = %s, time = %s "  # noqa: S608
                f"WHERE id IN ({', '.join(['%s'] * len(some))}) AND generation <> {Change.FORGOTTEN}",
                [generation, int(time.time() * 1000), *some],
            )


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, BATCH)):
        yield some
