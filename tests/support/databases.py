"""What differs between the databases that the suites run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from entitlement.following.numbering import number_now


def settle() -> None:
    """Have the change log say what it would after a commit: where triggers do not number, who reads it does."""
    while number_now(connection):
        pass


@contextmanager
def unchecked() -> Iterator[None]:
    """Write rows that no check lets in: those that were there before the check was."""
    name = "entitlement_rule_can_be_read"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", [name])
            [[check]] = cursor.fetchall()
            off = f"ALTER TABLE entitlement_rule DROP CONSTRAINT {name}"
            on = f"ALTER TABLE entitlement_rule ADD CONSTRAINT {name} {check.removesuffix(' NOT VALID')} NOT VALID"
        elif connection.vendor == "sqlite":
            off, on = "PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints = OFF"
        else:
            off, on = "SET SESSION check_constraint_checks = 0", "SET SESSION check_constraint_checks = 1"
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no table is altered while its triggers wait
        cursor.execute(off)
        try:
            yield
        finally:
            if connection.vendor == "postgresql":
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(on)
