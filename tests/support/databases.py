"""What differs between the databases that the suites run on."""

from __future__ import annotations

from django.db import connection

from entitlement.following.mariadb import number_now


def settle() -> None:
    """Have the change log say what it would after a commit.

    On PostgreSQL the triggers wait for one, and give a transaction one generation; a test's transaction has no end. On
    MariaDB who reads the log numbers what is committed.
    """
    number_now(connection)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
            cursor.execute("SELECT set_config('entitlement.generation', '', true)")
