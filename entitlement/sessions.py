"""What a login session is called on the sidecar, and how its end becomes known."""

from __future__ import annotations

import hashlib
import time
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.signed_cookies import SessionStore as CookieStore
from django.db import connections, models, router, transaction
from django.db.models import F


def session_id(session_key: str) -> str:
    """The ``sid`` of a session's tokens (protocol.md 8.4), which does not give the key itself away."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:32]


def lasting_key(session: SessionBase | None) -> str:
    """The key that names a session until it ends; empty for none, and for cookies, whose key is their content."""
    if session is None or isinstance(session, CookieStore):
        return ""
    return session.session_key or ""


def session_model() -> type[models.Model] | None:
    """The model that keeps the sessions; None if the session engine has no table."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    if not hasattr(store, "get_model_class"):
        return None
    try:
        model: type[models.Model] = store.get_model_class()
    except RuntimeError:  # "Model class … isn't in an application in INSTALLED_APPS"
        return None
    return model


def record_logout(sender: Any, request: Any, **_: Any) -> None:
    """Revoke the tokens of a session that signs out where no trigger can see it (``user_logged_out``)."""
    key = lasting_key(getattr(request, "session", None))
    if not key or session_model() is not None:
        return
    generation, change = apps.get_model("entitlement", "Generation"), apps.get_model("entitlement", "Change")
    if connections[router.db_for_write(change)].vendor == "mysql":  # who reads it numbers it (following/mariadb.py)
        change.objects.create(generation=change.PENDING, kind="session", key=key, time=0)
        return
    with transaction.atomic():
        generation.objects.update(value=F("value") + 1)
        for value in generation.objects.values_list("value", flat=True):
            change.objects.create(generation=value, kind="session", key=key, time=int(time.time() * 1000))
