"""What open transactions publish: which one a call belongs to, and its messages until its commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from fastpath.client.errors import ClientError, SidecarUnavailable
from realtime.conf import conf
from realtime.publishing import signals
from realtime.publishing.backends import backend
from realtime.publishing.failures import failures
from realtime.publishing.rows import Row


def open_transaction(using: str | None) -> BaseDatabaseWrapper | None:
    """Return the connection whose commit a message waits for, of the database ``using`` or of any; None: there is none.

    Raises TransactionManagementError where several could be meant, and where Django does not know of the commit, as
    ``on_commit()`` does; ConnectionDoesNotExist for a database that the settings do not name.
    """
    if using is None:  # an alias that this thread never used has no transaction, and may not even have its driver
        found = [one for one in connections.all(initialized_only=True) if _is_open(one)]
    else:
        found = [one for one in [connections[using]] if one.in_atomic_block or not _commits_itself(one)]
    if len(found) > 1:
        # A test case holds every database in a transaction of its own: those of the code under test count.
        found = [one for one in found if not _of_a_test_alone(one)] or found[:1]
    if len(found) > 1:
        names = " and ".join(f'"{one.alias}"' for one in found)
        raise TransactionManagementError(
            f"publish() is called in transactions of the databases {names}: "
            f'say whose commit it waits for, as in publish(…, using="{found[0].alias}")'
        )
    if found and not found[0].in_atomic_block:
        raise TransactionManagementError(
            f'publish() cannot wait for a commit of the database "{found[0].alias}" while its autocommit is off: '
            "call it inside transaction.atomic()"
        )
    if found and backend().commits_tests and _of_a_test_alone(found[0]):
        found = []
    if not found:
        settle()
    return found[0] if found else None


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    """Return True if a transaction may be under way there, of which a message may be a part."""
    if connection.in_atomic_block:
        return True
    if connection.connection is None or connection.autocommit:
        return False
    # Switched off by hand it is for what comes now. Off by the settings it says nothing of this moment.
    return bool(connection.settings_dict["AUTOCOMMIT"]) or _has_begun(connection)


def _has_begun(connection: BaseDatabaseWrapper) -> bool:
    """Return True if the connection's driver knows of a transaction, or does not tell."""
    driver: Any = connection.connection
    if connection.vendor == "sqlite":
        return bool(driver.in_transaction)
    if connection.vendor == "postgresql":
        return bool(driver.info.transaction_status)  # 0 is idle, with psycopg of both versions
    return True


def _commits_itself(connection: BaseDatabaseWrapper) -> bool:
    """Return True if each statement there is committed by itself; asked in this way no connection is opened."""
    connected = connection.connection is not None
    return bool(connection.autocommit if connected else connection.settings_dict["AUTOCOMMIT"])


def _of_a_test_alone(connection: BaseDatabaseWrapper) -> bool:
    blocks = connection.atomic_blocks
    return bool(blocks) and all(getattr(block, "_from_testcase", False) for block in blocks)


class _Call:
    """One call of publish() in a transaction. Django holds it among the callbacks of on_commit(), and nobody else does:
    where a savepoint or the whole is rolled back it ends there, and with it the message."""

    def __init__(self, waiting: Waiting, row: Row, silent: bool) -> None:
        self._waiting = waiting
        self.row = row
        self.silent = silent

    def commit(self) -> None:
        """Send for all, as Django's callback that is called first does."""
        self._waiting.send_from(self)


class Waiting:
    """The messages that wait for one connection's commit, in the order of the calls; a thread's own, as that is."""

    def __init__(self) -> None:
        self._calls: list[ref[_Call]] = []
        self._bytes_max = 0
        self._found = True

    def add(self, connection: BaseDatabaseWrapper, rows: Sequence[Row], silent: bool) -> None:
        """Send them after the commit, with the others; raises MessageTooLarge, for the first one SidecarUnavailable."""
        while self._calls and self._calls[-1]() is None:  # what a savepoint takes back is what came last
            self._calls.pop()
        if not self._calls or not (silent or self._found):
            self._bytes_max, self._found = _bytes_max(silent)
        for row in rows:
            row.check_size(self._bytes_max)
        for row in rows:
            call = _Call(self, row, silent)
            self._calls.append(ref(call))
            connection.on_commit(call.commit, robust=silent or conf.on_failure != "raise")

    def send_from(self, first: _Call) -> None:
        """Send the message of this call and those behind it, unless that is done: the transaction is committed."""
        alive = self._alive()
        if first not in alive:
            return
        place = alive.index(first)
        self._calls = [ref(call) for call in alive[:place]]  # not in this commit, as where a test captures callbacks
        self._send(alive[place:])

    def send_all(self) -> None:
        """Send what waits, of a transaction that will not commit."""
        alive, self._calls = self._alive(), []
        if alive:
            self._send(alive)

    def _send(self, calls: Sequence[_Call]) -> None:
        rows = [call.row for call in calls]
        outcomes = backend().send(rows, time.monotonic())
        signals.tell(rows, outcomes)
        failed = [(call, error) for call, error in zip(calls, outcomes, strict=True) if isinstance(error, ClientError)]
        if failed:
            lost = [(call.row, error) for call, error in failed]
            failures.note(lost, len(rows), "after their transaction was committed")
            told = [error for call, error in failed if not call.silent]
            if told and conf.on_failure == "raise":
                raise told[0]

    def _alive(self) -> list[_Call]:
        return [call for one in self._calls if (call := one()) is not None]


def _bytes_max(silent: bool) -> tuple[int, bool]:
    """Return how many bytes a message may have, and True if that need not be asked again in this transaction.

    The question shows, in time for a rollback, whether there is a sidecar at all.
    """
    try:
        return backend().bytes_max(), True
    except SidecarUnavailable:
        if silent or conf.on_failure == "log":
            return conf.message_bytes_max, conf.on_failure == "log"
        raise


_waiting: WeakKeyDictionary[Any, Waiting] = WeakKeyDictionary()


def after_commit(connection: BaseDatabaseWrapper, rows: Sequence[Row], silent: bool) -> None:
    """Send messages when the connection's transaction commits."""
    _waiting.setdefault(connection, Waiting()).add(connection, rows, silent)


def settle() -> None:
    """Send what this thread's code has published in blocks that ended, inside of a test case's transaction.

    That never commits. Only for a backend that ``commits_tests``; what stands in a block that is open goes on waiting.
    """
    if not backend().commits_tests:
        return
    for connection in connections.all(initialized_only=True):
        waiting = _waiting.get(connection)
        if waiting is not None and _of_a_test_alone(connection):
            waiting.send_all()
