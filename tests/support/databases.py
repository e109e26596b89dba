"""What differs between the databases that the suites run on."""

from __future__ import annotations

from django.db import connection

from entitlement.following.numbering import number_now


def settle() -> None:
    """Have the change log say what it would after a commit: where triggers do not number, who reads it does."""
    while number_now(connection):
        pass
