"""The rows that publish() and its family write instead of sending."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from realtime.conf import conf
from realtime.publishing.commit_hook import open_transaction
from realtime.publishing.failures import failures
from realtime.publishing.outcomes import OutboxFull
from realtime.publishing.rows import Row

if TYPE_CHECKING:  # publish() may be imported before the apps are loaded, as Celery imports its application
    from realtime.models import OutboxMessage

VENDORS = ("sqlite", "postgresql")
"""Databases on which the order of commits can be told."""

CHANNEL = "realtime_outbox"
"""Channel on which PostgreSQL notifies of a commit with rows."""

COUNT_SECONDS = 1.0
"""The rows are counted this often, as other processes write as well; and whenever there might be too many."""

COUNT_SHARE = 50
"""Counting takes so small a share of the time at most."""

_encode = msgspec.msgpack.Encoder().encode


def write(rows: Sequence[Row], using: str | None, silent: bool) -> None:
    """Write them to the outbox, as part of the transaction that is open there.

    Raises MessageTooLarge, OutboxFull (logged where ``silent`` or the settings say so), TransactionManagementError for
    a transaction of another database, and what the database raises.
    """
    for row in rows:
        row.check_size(conf.message_bytes_max)
    connection = _connection(using)
    model: type[OutboxMessage] = apps.get_model("realtime", "OutboxMessage")
    messages = [model(subject=row.subject, message=_encode(row.wire), size=row.size) for row in rows]
    try:
        _rooms.write(connection, model, messages)
    except OutboxFull as error:
        if not (silent or conf.logs_full_outbox):
            raise
        failures.note([(row, error) for row in rows], len(rows), "as the outbox is full")
        return
    if connection.vendor == "postgresql":
        _notify_after_commit(connection)


def _connection(using: str | None) -> BaseDatabaseWrapper:
    alias = conf.outbox
    found = open_transaction(using)
    if found is not None and found.alias != alias:
        raise TransactionManagementError(
            f'publish() is called in a transaction of the database "{found.alias}", and the outbox is in "{alias}": '
            f'a rollback would not take the message back. Say using="{alias}" to write it all the same'
        )
    connection = found or connections[alias]
    if connection.vendor not in VENDORS:
        raise ImproperlyConfigured(
            f'REALTIME["OUTBOX"]: "{alias}" is {connection.display_name}; an outbox is on SQLite or PostgreSQL.'
        )
    return connection


class _Rooms:
    """The number of rows that may still be written, as far as this process knows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[str, int] = ("", 0)
        self._left = 0
        self._count_at = 0.0

    def write(self, connection: BaseDatabaseWrapper, model: type[OutboxMessage], messages: list[OutboxMessage]) -> None:
        """Insert them; raises OutboxFull, and has written none then."""
        most = conf.outbox_rows_max
        counts = not self._take(connection.alias, most, len(messages))
        # Counted behind the insert: on SQLite a transaction that reads first may not be able to write.
        with transaction.atomic(using=connection.alias, savepoint=counts):
            model.objects.using(connection.alias).bulk_create(messages)
            if counts:
                self._count(model, connection.alias, most, messages[0].subject)

    def _take(self, alias: str, most: int, count: int) -> bool:
        """Take room for so many rows; return True if there is some without another look."""
        with self._lock:
            if self._known != (alias, most) or time.monotonic() >= self._count_at or self._left < count:
                return False
            self._left -= count
            return True

    def _count(self, model: type[OutboxMessage], alias: str, most: int, subject: str) -> None:
        began = time.monotonic()
        count = model.objects.using(alias).count()
        now = time.monotonic()
        if count > most:
            raise OutboxFull(f'the outbox has {most} rows: is realtime_outbox at work? (REALTIME["OUTBOX_ROWS_MAX"])',
                             subject)  # fmt: skip
        with self._lock:
            self._known, self._left = (alias, most), most - count
            self._count_at = now + max(COUNT_SECONDS, COUNT_SHARE * (now - began))


_rooms = _Rooms()


def _notify_after_commit(connection: BaseDatabaseWrapper) -> None:
    """Wake who sends. Not in the transaction itself, where a notification makes all commits wait for each other."""
    waiting = connection.run_on_commit
    if waiting and isinstance(getattr(waiting[-1][1], "__self__", None), _Notifier):
        return
    connection.on_commit(_Notifier(connection).notify, robust=True)


class _Notifier:
    """Wakes who sends. Of what fails Django logs ``__qualname__``, which a method has and a ``partial`` has not."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection

    def notify(self) -> None:
        """Notify of the rows; where this fails they are found by looking."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
