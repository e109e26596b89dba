"""What the watched tables hold, in short, so that two copies show what a trigger would have noted between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import Any

from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from entitlement.following.triggers import watched
from entitlement.following.watch import Watch, epoch
from entitlement.models import Change, Generation

BATCH = 500
"""Changes in one INSERT."""


class Copy:
    """The keys of each watched table, with digests of the columns that matter; about 150 bytes a key."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        groups: dict[tuple[str, str], list[Watch]] = {}
        for watch in watched(connection):
            groups.setdefault((watch.table, watch.key), []).append(watch)
        self._tables = {
            tuple(group): _read(connection, *place, [watch for watch in group if watch.event == "UPDATE"])
            for place, group in groups.items()
        }

    def changes_since(self, older: Copy) -> set[tuple[str, str]]:
        """Return the changes since an older copy, as the log would list them: (kind, key), of tables that both have."""
        changes: set[tuple[str, str]] = set()
        now = time.time()
        for watches, rows in self._tables.items():
            before = older._tables.get(watches)
            if before is not None:
                # Nearly all are as they were: of these each step would be one too many.
                for key in {key for key, _ in before.items() ^ rows.items()}:
                    changes |= {(kind, str(key)) for kind in _kinds(watches, before.get(key), rows.get(key), now)}
        return changes

    def everybody(self) -> set[tuple[str, str]]:
        """Return a change of every user, for when it is not known since when changes were not noted."""
        kind = Change.Kind.USER.value
        return {
            (kind, str(key))
            for watches, rows in self._tables.items()
            if any(watch.kind == kind for watch in watches)
            for key in rows
        }


def note(connection: BaseDatabaseWrapper, changes: Collection[tuple[str, str]], *, forget: bool = False) -> int:
    """Raise the generation and log these changes; ``forget``: others are not known, so a full set is to be sent.

    The generation, which no other note has; 0 where nothing was to be noted.
    """
    if not changes and not forget:
        return 0
    alias = connection.alias
    with transaction.atomic(using=alias):
        raised = {"value": models.F("value") + 1}
        # In this order: MariaDB's second assignment sees the first.
        Generation.objects.using(alias).update(**({"forgotten": models.F("value") + 1} if forget else {}), **raised)
        now = int(time.time() * 1000)
        value = 0
        for value in Generation.objects.using(alias).values_list("value", flat=True):
            rows = (Change(generation=value, kind=kind, key=key, time=now) for kind, key in sorted(changes))
            Change.objects.using(alias).bulk_create(rows, batch_size=BATCH)
    return value


def _read(connection: BaseDatabaseWrapper, table: str, key: str, updates: list[Watch]) -> dict[Any, tuple[float, ...]]:
    """Return the digests by key, one for each way in which a row's change matters; those of rows with one key add up.

    Of a row that ends by itself the digest is the second in which it does.
    """
    quote = connection.ops.quote_name
    columns, spans = [quote(key)], []
    found: dict[Any, tuple[float, ...]] = {}
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table) if updates else []
        for watch in updates:
            start = len(columns)
            if watch.until:
                columns.append(epoch(connection, quote(watch.until)))
            else:  # all columns where none is named
                columns += [_plain(connection, name) for name in watch.columns or [column.name for column in described]]
            spans.append(slice(start, len(columns)))
        cursor.execute(f"SELECT {', '.join(columns)} FROM {quote(table)}")
        digests = [_ends if watch.until else _DIGESTS.get(connection.vendor, _digest_of_any) for watch in updates]
        made = list(zip(digests, spans, strict=True))
        for row in cursor:
            new = tuple([digest(row[span]) for digest, span in made])
            same = found.setdefault(row[0], new)
            if same is not new:
                found[row[0]] = tuple(map(sum, zip(same, new, strict=True)))
    return found


def _ends(values: tuple[Any, ...]) -> float:
    return _seconds(values[0])


def _digest_of_any(values: tuple[Any, ...]) -> int:
    """Return a hash of the values' text: two numbers may have the same hash (-1 and -2), and no two texts."""
    return hash(repr(values))


_DIGESTS: dict[str, Callable[[tuple[Any, ...]], int]] = {"postgresql": hash, "sqlite": hash}
"""Digests of databases whose columns all come as texts or bytes (``_plain``): a third of the time of a look."""


def _seconds(moment: Any) -> float:
    """Return the moment in seconds; what is no moment never comes."""
    return inf if moment is None else float(moment)


def _plain(connection: BaseDatabaseWrapper, column: str) -> str:
    """Return a column as no driver fails to read it: a date or text that is none would stop all other rows."""
    name = connection.ops.quote_name(column)
    return {"postgresql": f"{name}::text", "sqlite": f"CAST({name} AS BLOB)"}.get(connection.vendor, name)


def _kinds(
    watches: tuple[Watch, ...], before: tuple[float, ...] | None, after: tuple[float, ...] | None, now: float
) -> Iterator[str]:
    """Yield the kinds of change of a key with these digests; None: there is no such row."""
    updates = [watch for watch in watches if watch.event == "UPDATE"]
    if before is None or after is None:
        event = "INSERT" if before is None else "DELETE"
        ends = {watch.until: end for watch, end in zip(updates, before or (), strict=False) if watch.until}
        for watch in watches:
            if watch.event == event and watch.ends(ends.get(watch.until, inf), None, now):
                yield watch.kind
        return
    for watch, old, new in zip(updates, before, after, strict=True):
        if watch.ends(old, new, now) if watch.until else old != new:
            yield watch.kind
