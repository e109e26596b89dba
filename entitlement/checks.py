"""System checks: a database that takes triggers, that they are there, and settings that make sense."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Info
from django.core.checks import Warning as CheckWarning
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, router

from entitlement import conf, keys, sessions
from entitlement.following import compiler, mariadb_checks, triggers
from entitlement.models import Change, Generation, Rule
from entitlement.permissions import asking
from fastpath.core.broker.rights_records import LeftOut, read_records

_SECRET_BYTES_MIN = 32


def check_database(**_: Any) -> list[CheckMessage]:
    """Find a database in which triggers cannot see all changes: they exist for some databases, inside one of them."""
    connection = connections[router.db_for_write(Rule)]
    found: list[CheckMessage] = []
    if connection.vendor not in triggers.VENDORS:
        found.append(
            Error(
                f"entitlement cannot follow changes in a {connection.vendor} database: its triggers exist for "
                "SQLite, PostgreSQL, MariaDB and MySQL only.",
                hint="Keep the rules, users and sessions in one of these.",
                id="entitlement.E001",
            )
        )
    together = [Rule, Generation, Change, get_user_model(), sessions.session_model()]
    aliases = {router.db_for_write(model) for model in together if model is not None}
    if len(aliases) > 1:
        found.append(
            Error(
                f"The rules, users and sessions are spread over the databases {', '.join(sorted(aliases))}: a trigger "
                "cannot write into another database.",
                hint="Route them to one database.",
                id="entitlement.E002",
            )
        )
    return found


def check_settings(**_: Any) -> list[CheckMessage]:
    """Token secret and lifetimes."""
    found: list[CheckMessage] = []
    try:
        lifetime, secret = conf.token_seconds(), conf.token_secret()
    except (TypeError, ValueError) as error:
        return [
            Error(
                f"REALTIME holds a lifetime that is no whole number of seconds: {error}",
                id="entitlement.E003",
            )
        ]
    if lifetime <= 0:
        found.append(
            Error(
                f'REALTIME["TOKEN_SECONDS"] is {lifetime}: tokens would end before they begin.',
                hint="The default is 43200 (12 hours).",
                id="entitlement.E003",
            )
        )
    if len(secret.encode()) < _SECRET_BYTES_MIN:
        found.append(
            CheckWarning(
                f'REALTIME["TOKEN_SECRET"] has fewer than {_SECRET_BYTES_MIN} bytes: HS256 tokens could be forged '
                "by trying.",
                hint="Leave it out to derive it from SECRET_KEY, or choose a random one.",
                id="entitlement.W002",
            )
        )
    found += _check_keys()
    if settings.SESSION_ENGINE.endswith("signed_cookies"):
        found.append(
            CheckWarning(
                "Sessions are kept in signed cookies: the server cannot revoke the tokens of one that signs out.",
                hint='Use a SESSION_ENGINE with a table or a cache, or a short REALTIME["TOKEN_SECONDS"].',
                id="entitlement.W003",
            )
        )
    return found


def check_permissions(**_: Any) -> list[CheckMessage]:
    """Find faults of the project's function, before the first who asks for a token finds out, and gets none."""
    try:
        asking.function()
    except ImproperlyConfigured as error:
        hint = 'REALTIME["PERMISSIONS"] = "shop.live.permissions", where shop/live.py has: def permissions(user): …'
        return [Error(str(error), hint=hint, id="entitlement.E009")]
    return []


FIRST_RULE = "entitlement_rules allow everyone '/scores/**'"


def check_rules(**_: Any) -> list[CheckMessage]:
    """Find that there is no rule, so that nobody may read, which a newcomer takes for a fault; for ``manage.py check``
    alone."""
    return rules_messages() if "check" in sys.argv[1:2] else []


def rules_messages() -> list[CheckMessage]:
    """Return a hint with the command that makes the first rule, where rules decide and there is none."""
    if os.environ.get("FASTPATH_MODE", "rules") != "rules":
        return []
    try:
        if Rule.objects.exists():
            return []
    except DatabaseError:
        return []  # before the first migrate
    return [
        Info(
            "There is no rule yet: nobody may read or publish anything.",
            hint=f"Add one in the admin, or for example with `{sys.argv[0]} {FIRST_RULE}`.",
            id="entitlement.I001",
        )
    ]


def _check_keys() -> list[CheckMessage]:
    """Find a file of keys that holds none which signs, or that everybody may read."""
    path = conf.token_keys()
    if not path:
        return []
    try:
        keys.signing_key()
        shared = os.stat(path).st_mode & 0o007
    except (keys.KeysError, OSError) as error:
        # No error: that would keep the command from running that makes the file, and migrate.
        return [
            CheckWarning(
                f'REALTIME["TOKEN_KEYS"]: {error}', hint="No token can be made until then.", id="entitlement.W005"
            )
        ]
    if not shared:
        return []
    return [
        CheckWarning(
            f"{path} can be read or written by everybody on this machine: it holds the keys that sign tokens.",
            hint=f"chmod 600 {path}",
            id="entitlement.W004",
        )
    ]


def check_rows(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Find rows that a sidecar cannot read (with ``check --database``); none keeps ``migrate`` from running."""
    alias = router.db_for_write(Rule)
    if alias not in (databases or ()) or connections[alias].vendor not in triggers.VENDORS:
        return []
    try:
        at = compiler.position()
        if at is None:
            return []
        records = compiler.full_set(at.generation)
    except DatabaseError:
        return []  # before the first migrate, or amid one
    left_out = LeftOut(read_records(records.rules, records.users, records.sessions, records.options).faults)
    if not left_out.faults:
        return []
    found = f"Rows of rights are {left_out.text()}."
    if left_out.denying:
        found += " Somebody may read what is not for them."
    hint = "Correct or delete them, for example in the admin; all others count."
    return [CheckWarning(found, hint=hint, id="entitlement.W008" if left_out.denying else "entitlement.W007")]


def check_triggers(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Find missing triggers that cannot be made (with ``check --database``, and before ``migrate``)."""
    alias = router.db_for_write(Rule)
    connection = connections[alias]
    if alias not in (databases or ()) or connection.vendor not in triggers.VENDORS:
        return []
    try:
        found = mariadb_checks.database_messages(connection)
        # Before the first migrate there is nothing to miss.
        is_first = Rule._meta.db_table not in connection.introspection.table_names()
        absent = [] if is_first else triggers.missing(connection)
        if is_first or absent:
            found += mariadb_checks.privilege_messages(connection)
    except DatabaseError as error:
        return [CheckWarning(f"The triggers cannot be looked up: {error}", id="entitlement.W001")]
    if not absent:
        return found
    return [
        *found,
        CheckWarning(
            f"{len(absent)} triggers are missing, of {triggers.in_words(connection, absent)}: until they are there, "
            "changes of rights are seen only by an agent that runs and compares the tables five times a second.",
            hint="Run migrate, as the database user that owns the tables: it installs them.",
            id="entitlement.W001",
        ),
    ]
