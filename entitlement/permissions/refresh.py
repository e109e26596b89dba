"""Have a user's rights found out anew at once: the tokens that there are end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import connections, router

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def refresh_rights(user: AbstractBaseUser) -> None:
    """End the user's tokens of until now, so that clients come back with new ones, whose rights are found out anew.

    Within a second of the commit of the transaction around it; nothing that the user may still read is missed. A client
    whose token is not renewed by itself, such as a publisher's with one of ``realtime_token``, needs another one.
    """
    # It is imported with its whole family, also before the apps are loaded.
    from entitlement.models import Change  # noqa: PLC0415
    from entitlement.sessions import note_change  # noqa: PLC0415

    primary = get_user_model()._meta.pk
    connection = connections[router.db_for_write(Change)]
    note_change(Change.Kind.PASSWORD, str(primary.get_db_prep_value(user.pk, connection)))
