"""What ``migrate`` does about the triggers: set aside around what would alter their table, and installed at the end.

PostgreSQL refuses to alter a column that a trigger names, and SQLite to drop one; SQLite makes many a table anew,
without its triggers; MariaDB drops the column, and then refuses whatever has the trigger look at it. So the operations
of a plan are wrapped, each by itself: what sets triggers aside is undone with the migration's transaction if that
fails, and holds the table against everybody else until they are back. Without such a transaction, as always on MariaDB,
they are brought back after the operation, whether it fails or not, and what changed meanwhile is noted.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.db import DatabaseError, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import operations as kinds
from django.db.migrations.operations.base import Operation

from entitlement.following import triggers
from entitlement.following.copies import Copy, note
from entitlement.following.truncation import begin_log
from entitlement.models import Change, Generation
from fastpath.core.auth.rule_grants import OTHERS

_ALTERING = (
    kinds.AlterField,
    kinds.AlterModelTable,
    kinds.DeleteModel,
    kinds.RemoveField,
    kinds.RenameField,
    kinds.RenameModel,
)
"""Operations that a trigger may stand in the way of; an added field, index or constraint touches nothing that one
names."""

_ALTERING_CALLS = frozenset({"alter_db_table", "alter_field", "delete_model", "execute", "remove_field"})
"""The same of a schema editor, which RunPython and operations of somebody's own call; first comes the model, or SQL."""

_REMAKING_CALLS = frozenset(
    {"add_constraint", "add_field", "alter_index_together", "alter_unique_together", "remove_constraint"}
)
"""Calls that nothing stands in the way of, but that make SQLite's table anew without its triggers: what the same code
then changes in it would not be seen."""

_MODEL_NAMES = ("model_name", "name", "old_name", "new_name")

_ALTERING_SQL = re.compile(r"\b(ALTER|DROP|RENAME)\b", re.IGNORECASE)

_log = logging.getLogger("entitlement.migrating")


def before_migrate(plan: Iterable[tuple[Any, bool]], **_: Any) -> None:
    """Wrap every operation of the plan; done once, it stays with the operation."""
    for migration, _backwards in plan:
        _wrap(migration.operations)


def after_migrate(using: str, **_: Any) -> None:
    """Install the triggers, and create the generation row where it is missing (first migrate, flush)."""
    connection = connections[using]
    if not triggers.own_tables() <= set(connection.introspection.table_names()):
        return
    changed = triggers.install(connection)
    if not begin_generations(connection) and changed:
        # What was changed while the triggers were away is not in the log: only a full set tells it.
        # In this order: MariaDB's second assignment sees the first.
        Generation.objects.using(using).update(forgotten=models.F("value") + 1, value=models.F("value") + 1)


def begin_generations(connection: BaseDatabaseWrapper) -> bool:
    """Create the generation row where it is missing, as after ``flush`` and ``sqlflush``; whether it was."""
    using = connection.alias
    # The clock, so that an emptied database goes on above every generation that a token or sidecar holds; and above
    # what the log kept of the rows that it lost, which may be more than there were milliseconds.
    now = int(time.time() * 1000)
    kept = Change.objects.using(using).aggregate(last=models.Max("generation"))["last"] or 0
    first = max(now, kept + 1)
    _, created = Generation.objects.using(using).get_or_create(pk=1, defaults={"value": first, "forgotten": first})
    if created:
        # Who had a token before is not known any more, nor whether they are still there.
        others = {"kind": Change.Kind.USER.value, "key": OTHERS, "time": now}
        Change.objects.using(using).create(generation=first, **others)
        begin_log(connection)
    return created


def _wrap(operations: Iterable[Operation]) -> None:
    for operation in operations:
        nested = getattr(operation, "database_operations", None)
        if nested is not None:  # SeparateDatabaseAndState
            _wrap(nested)
            continue
        for name in ("database_forwards", "database_backwards"):
            if not isinstance(getattr(operation, name), _Wrapped):
                setattr(operation, name, _Wrapped(operation, getattr(operation, name)))


class _Wrapped:
    """``database_forwards`` or ``database_backwards`` of an operation, after which the triggers are as before."""

    def __init__(self, operation: Operation, alter: Callable[..., None]) -> None:
        self._operation = operation
        self._alter = alter

    def __call__(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        known = connection.vendor in triggers.VENDORS and not schema_editor.collect_sql
        before = triggers.present(connection) if known else {}
        if not before:
            self._alter(app_label, schema_editor, from_state, to_state)
            return
        aside = _Aside(connection)
        triggers.fire(connection)
        tables = self._in_the_way(app_label, (from_state, to_state), set(before.values()))
        aside.take(tables, may_write=isinstance(self._operation, kinds.RunSQL))
        editor = _Editor(schema_editor, aside, set(before.values())) if self._is_free else schema_editor
        try:
            self._alter(app_label, editor, from_state, to_state)
        except BaseException:
            if not _is_held(connection):  # nothing takes back what was set aside
                _bring_back_after_failure(connection, before, aside.copy)
            raise
        _bring_back(connection, before, aside.copy)

    @property
    def _is_free(self) -> bool:
        """True for an operation that runs code of the project's, of which nothing says what it alters."""
        kind = type(self._operation)
        return issubclass(kind, kinds.RunPython) or not kind.__module__.startswith("django.")

    def _in_the_way(self, app_label: str, states: Iterable[Any], tables: set[str]) -> set[str]:
        """Return the tables, of those that have triggers, whose triggers would be in the way."""
        operation = self._operation
        if isinstance(operation, kinds.RunSQL):
            return _of_sql(f"{operation.sql} {operation.reverse_sql}", tables)
        named = _tables_of(operation, app_label, states)
        if named & triggers.own_tables():  # every trigger writes them
            return tables
        return named & tables if isinstance(operation, _ALTERING) else set()


class _Aside:
    """The triggers of some tables that are set aside until an operation is done."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self.copy: Copy | None = None
        """Copy of what the tables held before, where something may change that no trigger sees."""

    def take(self, tables: set[str], *, may_write: bool) -> None:
        """Set the triggers of the tables aside; ``may_write``: the operation may also change rows of them."""
        if not tables or _refuses_alterations(self._connection):
            return
        # In a transaction nobody else writes a table whose triggers are aside.
        if self.copy is None and (may_write or not _is_held(self._connection)):
            self.copy = Copy(self._connection)
        triggers.remove(self._connection, tables)


class _Editor:
    """The schema editor for code of somebody's own: whatever triggers would hinder goes without them from then on."""

    def __init__(self, editor: Any, aside: _Aside, tables: set[str]) -> None:
        self._editor = editor
        self._aside = aside
        self._tables = tables

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._editor, name)
        is_remaking = name in _REMAKING_CALLS and self._editor.connection.vendor == "sqlite"
        if name not in _ALTERING_CALLS and not is_remaking:
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            what = arguments[0] if arguments else options.get("model", options.get("sql", ""))
            self._take(_of_sql(str(what), self._tables) if name == "execute" else self._of_model(what))
            return value(*arguments, **options)

        return call

    def _of_model(self, model: type[models.Model]) -> set[str]:
        named = _with_relations(model)
        return self._tables if named & triggers.own_tables() else named & self._tables

    def _take(self, tables: set[str]) -> None:
        if tables:
            triggers.fire(self._editor.connection)
        self._aside.take(tables, may_write=True)


def _is_held(connection: BaseDatabaseWrapper) -> bool:
    """Return True if all that is done to tables and triggers is part of a transaction."""
    return connection.in_atomic_block and triggers.holds_ddl(connection)


def _refuses_alterations(connection: BaseDatabaseWrapper) -> bool:
    """Return True if Django refuses to alter a table: on MariaDB it does in a transaction, which that would commit."""
    return connection.in_atomic_block and not triggers.holds_ddl(connection)


def _of_sql(text: str, tables: set[str]) -> set[str]:
    """Return the tables, of those that have triggers, whose triggers may hinder statements."""
    if not _ALTERING_SQL.search(text):
        return set()
    if any(table in text for table in triggers.own_tables()):  # every trigger writes them
        return tables
    return {table for table in tables if table in text}


def _with_relations(model: type[models.Model]) -> set[str]:
    """Return the tables of a model and of its own many-to-many relations."""
    return {model._meta.db_table, *(field.m2m_db_table() for field in model._meta.local_many_to_many)}


def _tables_of(operation: Operation, app_label: str, states: Iterable[Any]) -> set[str]:
    """Return the tables of the model that an operation is about, before and after it."""
    names = {str(getattr(operation, name, "")).lower() for name in _MODEL_NAMES}
    if hasattr(operation, "model_name"):  # its name is that of a field, an index or a constraint
        names = {operation.model_name.lower()}
    tables = set()
    for state in states:
        for name in names:
            if (app_label, name) in state.models:
                tables |= _with_relations(state.apps.get_model(app_label, name))
    return tables


def _bring_back(connection: BaseDatabaseWrapper, before: dict[str, str], copy: Copy | None) -> None:
    """Install what was set aside, or went with a table that was made anew; note what ``copy`` shows was changed."""
    if triggers.present(connection) != before:
        triggers.install(connection)
    triggers.fire(connection)
    if copy is not None:
        note(connection, Copy(connection).changes_since(copy))


def _bring_back_after_failure(connection: BaseDatabaseWrapper, before: dict[str, str], copy: Copy | None) -> None:
    try:
        _bring_back(connection, before, copy)
    except DatabaseError:
        _log.exception(
            "the triggers could not be brought back: run migrate again; until then the agent compares tables"
        )
