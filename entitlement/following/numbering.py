"""Gives what triggers have noted its generation: who asks for the generation numbers all that is committed.

A trigger that raised the generation would lock its row until the end of the transaction: everybody else who changes a
right would wait for it, and two could wait for each other. So on PostgreSQL and MariaDB a note has the generation
``Change.PENDING`` at first, and locks nothing that others need. It is seen with its commit, whatever its place in the
table; whoever asks for the generation then gives it the next one. That is never lower than what a reader of the changed
rows has seen before, which is all that a generation has to say. SQLite has one writer at a time: its triggers number.

Notes of many rows are numbered a slice at a time, and those of others come first in each. What fits into a slice is
numbered together, so that nobody sees half of a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Min, QuerySet

from entitlement.following import mariadb
from entitlement.models import Change, DeletedChange, Generation

SLICE = 500
"""Notes that are numbered with one generation, and a few more; those of rules and options are never told apart."""

SHARE = 200
"""How many of them are of transactions that have noted more than a slice."""

WRITERS = 250
"""Transactions that are looked at for one slice."""

BATCH = 500
"""Notes that one statement is about."""

_AT_ONCE = (Change.Kind.RULE, Change.Kind.OPTIONS)

_NUMBERED_BY_TRIGGERS = "sqlite"


def number_notes(connection: BaseDatabaseWrapper) -> bool:
    """Give what was noted and committed the next generation, a slice of it at most; whether there is more.

    In a transaction nothing happens, as the row of the generation would stay locked until its end.
    """
    return not connection.in_atomic_block and number_now(connection)


def number_now(connection: BaseDatabaseWrapper) -> bool:
    """The same, also in a transaction."""
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
        keys, has_more = _slice(alias)
        if keys or deleted:
            generations.update(value=before + 1)
            for some in _batches(keys):
                _number(connection, some, before + 1)
            _put_back(connection, deleted, before + 1)
    return has_more or len(deleted) == SLICE


def _pending(alias: str) -> QuerySet[Change]:
    return Change.objects.using(alias).filter(generation=Change.PENDING)


def _deleted(connection: BaseDatabaseWrapper) -> QuerySet[DeletedChange]:
    """What was deleted from the log and is to come back; where triggers can put it back themselves there is none."""
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
    """The keys of the notes whose turn it is, and whether others are left."""
    pending = _pending(alias)
    # Their order does not matter: by the index that has them.
    keys = list(pending.values_list("id", flat=True)[: SLICE + 1])
    if len(keys) <= SLICE:
        return keys, False
    waiting = [pending.filter(writer=writer) for writer in islice(_writers(pending), WRITERS)]
    newest = [(list(noted.order_by("-id").values_list("id", flat=True)[: SLICE + 1]), noted) for noted in waiting]
    found: list[int] = []
    # The shortest first, each as a whole: nobody waits for who has noted more.
    for own in sorted((own for own, _ in newest if len(own) <= SLICE), key=len):
        if len(found) + len(own) <= SLICE:
            found += own
    long = [noted for own, noted in newest if len(own) > SLICE]
    for noted in long[:SHARE]:
        found += _share(noted, SHARE // len(long[:SHARE]))
    return found, True


def _writers(pending: QuerySet[Change]) -> Iterator[int | None]:
    """Who has noted what is pending; None for notes of which that is not known. Each is a look at the index."""
    if pending.filter(writer=None).exists():
        yield None
    writer = pending.aggregate(first=Min("writer"))["first"]
    while writer is not None:
        yield writer
        writer = pending.filter(writer__gt=writer).aggregate(first=Min("writer"))["first"]


def _share(noted: QuerySet[Change], most: int) -> list[int]:
    """The keys of the newest of one writer's many notes, as on MariaDB several transactions may be one.

    Those of rules and options come when nothing else is left: a rule that comes with the end of a membership must not
    be in force before it.
    """
    others = list(noted.exclude(kind__in=_AT_ONCE).order_by("-id").values_list("id", flat=True)[:most])
    return others or list(noted.values_list("id", flat=True))


def _number(connection: BaseDatabaseWrapper, keys: list[int], generation: int) -> None:
    """By primary keys: any other way might wait on MariaDB for the notes of transactions that are still open."""
    table = connection.ops.quote_name(Change._meta.db_table)
    by_key = " FORCE INDEX (PRIMARY)" if connection.vendor == mariadb.VENDOR else ""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table}{by_key} SET generation = %s, time = %s "  # noqa: S608
            f"WHERE id IN ({', '.join(['%s'] * len(keys))}) AND generation = %s",
            [generation, int(time.time() * 1000), *keys, Change.PENDING],
        )


def _batches(keys: Iterable[int]) -> Iterator[list[int]]:
    keys = list(keys)
    for start in range(0, len(keys), BATCH):
        yield keys[start : start + BATCH]
