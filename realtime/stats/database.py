"""Says which database the statistics are in, and makes the file that they have of their own beside one of SQLite.

The collector writes all the time, and SQLite fails a transaction that has read and would write when somebody else has
written meanwhile: beside the project's own tables it would make the project's requests fail
(docs/explain/decisions/0048-statistics-of-their-own.md).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections, router, transaction
from django.db import Error as DatabaseFailure
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend
from django.utils.connection import ConnectionDoesNotExist

from realtime.conf import conf
from realtime.models import StatisticsBucket, StatisticsState

FILE_ALIAS = "realtime statistics"
"""Names the file's connection, which is none of DATABASES: neither `migrate` nor the project's tests know of it."""

FILE_SUFFIX = "-statistics.sqlite3"
"""``db.sqlite3`` has ``db-statistics.sqlite3`` beside it."""

_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
"""Readers and the one writer do not block each other."""

_TABLES = (StatisticsState, StatisticsBucket)
_AT_ONCE = 500

log = logging.getLogger(__name__)


class Router:
    """A router for DATABASE_ROUTERS: `migrate --database` makes nothing but the statistics in
    REALTIME["STATS_DATABASE"]."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **_: Any) -> bool | None:
        """Return None where others may say; in Django's own main database everything stays as it is."""
        if db == DEFAULT_DB_ALIAS or db != conf.stats_database:
            return None
        return app_label == "realtime" and model_name in {model._meta.model_name for model in _TABLES}


def own_file() -> Path | None:
    """Return the file that the statistics have of their own; None: they are in a database of the project."""
    if conf.stats_database or router.db_for_write(StatisticsState) != DEFAULT_DB_ALIAS:
        return None
    if conf.is_test_run:  # which has a database for the time of the tests
        return None
    path = _default_path()
    return path and path.with_name(path.stem + FILE_SUFFIX)


def to_write() -> str:
    """Return the alias that the collector writes under, in this thread. The database is there after ``prepare``."""
    path = own_file()
    if path is None:
        return conf.stats_database or router.db_for_write(StatisticsState)
    return _registered(FILE_ALIAS, path)


@contextmanager
def to_read() -> Iterator[str]:
    """Yield the alias to read under, in this thread; before there is a file, where the statistics were before it."""
    path = own_file()
    if path is None or not path.exists():
        yield conf.stats_database or router.db_for_read(StatisticsState)
        return
    alias = _registered(FILE_ALIAS, path)
    try:
        yield alias
    finally:
        connections[alias].close()  # Django closes those of DATABASES alone at the end of a request


def prepare() -> None:
    """Make the file if it is missing, and take over what the project's main database has of statistics.

    Raises django.db.Error, as does all else where the database does not answer.
    """
    path = own_file()
    try:
        if path is not None and not path.exists():
            _make(path)
    except OSError as error:
        raise OperationalError(f"{path} cannot be made: {error.strerror}") from error
    alias = to_write()
    if path is None and alias != DEFAULT_DB_ALIAS and not StatisticsState.objects.using(alias).exists():
        _take_over(alias, f'the database "{alias}"')


def _make(path: Path) -> None:
    """Make the file under another name first: who reads meanwhile sees it whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        part.unlink()
    alias = _registered(f"{FILE_ALIAS}, new", part, init_command="PRAGMA journal_mode=DELETE")
    connection = connections[alias]
    try:
        with connection.schema_editor() as editor:
            for model in _TABLES:
                editor.create_model(model)
        _take_over(alias, str(path))
        connection.close()
        shutil.copymode(_default_path() or path, part)  # who may read the project's may read this
        _name(part, path)
    finally:
        connection.close()
        part.unlink(missing_ok=True)


def _name(part: Path, path: Path) -> None:
    """Give it its name, unless another process was quicker."""
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        if not path.exists():
            os.replace(part, path)


def _take_over(alias: str, where: str) -> None:
    """Copy what was collected in the main database before: there it stays as it is, and nobody reads it any more."""
    try:
        state = StatisticsState.objects.using(DEFAULT_DB_ALIAS).first()
        rows = list(StatisticsBucket.objects.using(DEFAULT_DB_ALIAS))
    except DatabaseFailure:  # it has no such tables
        return
    if state is None:
        return
    values = {field.attname: getattr(state, field.attname) for field in StatisticsState._meta.concrete_fields}
    with transaction.atomic(using=alias):
        StatisticsState.objects.using(alias).create(**values | {"holder": ""})
        StatisticsBucket.objects.using(alias).bulk_create(rows, _AT_ONCE)
    log.warning(
        'the statistics are in %s from now on: %d buckets of the database "%s" were copied, and stay there, too',
        where,
        len(rows),
        DEFAULT_DB_ALIAS,
    )


def _registered(alias: str, path: Path, **options: Any) -> str:
    """Return the alias, with a connection to the file in this thread."""
    name = str(path)
    with suppress(ConnectionDoesNotExist):
        if connections[alias].settings_dict["NAME"] == name:
            return alias
    connections[alias] = _connection(alias, name, _OPTIONS | options)
    return alias


def _connection(alias: str, name: str, options: dict[str, Any]) -> BaseDatabaseWrapper:
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": options}
    whole = connections.configure_settings({DEFAULT_DB_ALIAS: {}, alias: given})[alias]
    made: BaseDatabaseWrapper = load_backend(whole["ENGINE"]).DatabaseWrapper(whole, alias)
    return made


def _default_path() -> Path | None:
    """Return the file of the project's main database, if that is SQLite and not in memory."""
    default = connections[DEFAULT_DB_ALIAS]
    if default.vendor != "sqlite":
        return None
    name = str(default.settings_dict["NAME"])
    if name.startswith("file:"):
        parts = urlsplit(name)
        name = "" if "mode=memory" in parts.query else unquote(parts.path)
    return None if name in ("", ":memory:") else Path(name)
