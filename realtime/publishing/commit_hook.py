"""What open transactions publish: which one a call belongs to, and its messages until its commit."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError

from fastpath.client.errors import ClientError, SidecarUnavailable
from realtime.conf import conf
from realtime.publishing.backends import backend
from realtime.publishing.failures import failures
from realtime.publishing.rows import Row


def open_transaction(using: str | None) -> BaseDatabaseWrapper | None:
    """The connection whose commit a message waits for, of the database ``using`` or of any; None: there is none.

    Raises TransactionManagementError where several could be meant, and where Django does not know of the commit, as
    ``on_commit()`` does; ConnectionDoesNotExist for a database that the settings do not name.
    """
    found = [one for one in (connections.all() if using is None else [connections[using]]) if _is_open(one)]
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
    return found[0] if found else None


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    if connection.in_atomic_block:
        return True
    # Asked in this way no connection is opened.
    connected = connection.connection is not None
    return not (connection.autocommit if connected else connection.settings_dict["AUTOCOMMIT"])


def _of_a_test_alone(connection: BaseDatabaseWrapper) -> bool:
    blocks = connection.atomic_blocks
    return bool(blocks) and all(getattr(block, "_from_testcase", False) for block in blocks)


class _Call:
    """One call of publish() in a transaction. Django holds it among the callbacks of on_commit(), and nobody else does:
    where a savepoint or the whole is rolled back it ends there, and with it the message."""

    def __init__(self, waiting: Waiting, row: Row) -> None:
        self._waiting = waiting
        self.row = row

    def commit(self) -> None:
        """Django's callback: the first that is called sends for all."""
        self._waiting.send_from(self)


class Waiting:
    """The messages that wait for one connection's commit, in the order of the calls; a thread's own, as that is."""

    def __init__(self) -> None:
        self._calls: list[ref[_Call]] = []
        self._bytes_max = 0

    def add(self, connection: BaseDatabaseWrapper, row: Row) -> None:
        """Send it after the commit, with the others; raises PublishRefused, for the first one SidecarUnavailable."""
        while self._calls and self._calls[-1]() is None:  # what a savepoint takes back is what came last
            self._calls.pop()
        if not self._calls:
            self._bytes_max = _bytes_max()
        row.check_size(self._bytes_max)
        call = _Call(self, row)
        self._calls.append(ref(call))
        connection.on_commit(call.commit, robust=conf.on_failure != "raise")

    def send_from(self, first: _Call) -> None:
        """The transaction is committed: send this call's message and those behind it, unless that is done."""
        alive = self._alive()
        if first not in alive:
            return
        place = alive.index(first)
        self._calls = [ref(call) for call in alive[:place]]  # not in this commit, as where a test captures callbacks
        rows = [call.row for call in alive[place:]]
        outcomes = backend().send(rows)
        failed = [(row, error) for row, error in zip(rows, outcomes, strict=True) if isinstance(error, ClientError)]
        if failed:
            failures.note(failed, len(rows), "after their transaction was committed")
            if conf.on_failure == "raise":
                raise failed[0][1]

    def _alive(self) -> list[_Call]:
        return [call for one in self._calls if (call := one()) is not None]


def _bytes_max() -> int:
    """How large a message may be. Asking for it shows, in time for a rollback, whether there is a sidecar at all."""
    try:
        return backend().bytes_max()
    except SidecarUnavailable:
        if conf.on_failure == "log":
            return conf.message_bytes_max
        raise


_waiting: WeakKeyDictionary[Any, Waiting] = WeakKeyDictionary()


def after_commit(connection: BaseDatabaseWrapper, row: Row) -> None:
    """Send a message when the connection's transaction commits."""
    _waiting.setdefault(connection, Waiting()).add(connection, row)
