"""What a login session is called on the sidecar, how its end becomes known, and requests that do not put it off."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from django.apps import apps
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.signed_cookies import SessionStore as CookieStore
from django.core.signing import b62_decode
from django.db import connections, models, router, transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

UNTOLD_SECONDS = 60
UNTOLD_SHARE = 100
"""A session whose store does not tell when it ends counts for so long, or for this part of its whole time."""

_View = TypeVar("_View", bound=Callable[..., HttpResponse])


def session_id(session_key: str) -> str:
    """Return the ``sid`` of a session's tokens (protocol.md 8.4), which does not give the key itself away."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:32]


def lasting_key(session: SessionBase | None) -> str:
    """Return the key that names a session until it ends; empty for none, and for cookies, whose key is their
    content."""
    if session is None or isinstance(session, CookieStore):
        return ""
    return session.session_key or ""


def session_model() -> type[models.Model] | None:
    """Return the model that keeps the sessions; None if the session engine has no table."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    if not hasattr(store, "get_model_class"):
        return None
    try:
        model: type[models.Model] = store.get_model_class()
    except RuntimeError:  # "Model class … isn't in an application in INSTALLED_APPS"
        return None
    return model


def seconds_left(session: SessionBase) -> int:
    """Return how long a session lives from now on if nothing puts its end off, as far as its store tells.

    ``get_expiry_age()`` says how long it would live if it were saved now.
    """
    age, key = session.get_expiry_age(), session.session_key
    if not key:
        return age
    if isinstance(session, CookieStore):
        signed = b62_decode(key.rsplit(":", 2)[1])  # a timestamp, which its signature covers
        lasts = session.get_expiry_age(modification=datetime.fromtimestamp(signed, UTC))
        return min(age, signed + min(lasts, session.get_session_cookie_age()) - int(time.time()))
    model = session_model()
    if model is None:
        return min(age, max(UNTOLD_SECONDS, session.get_session_cookie_age() // UNTOLD_SHARE))
    ends = model._default_manager.filter(session_key=key).values_list("expire_date", flat=True).first()
    return age if ends is None else min(age, int(ends.timestamp() - time.time()))


def leaves_session(view: _View) -> _View:
    """Decorate a view that pages ask by themselves: the session is as it was before, its end and its cookie too.

    With SESSION_SAVE_EVERY_REQUEST a page that is left open would keep its user signed in for ever.
    """

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        finally:
            counts = leave_session(request)
        if counts:  # as the session's middleware would have said
            patch_vary_headers(response, ("Cookie",))
        return response

    return answer  # type: ignore[return-value]


def leave_session(request: HttpRequest) -> bool:
    """Have the middleware pass the request's session over; True if the answer goes by it."""
    session = getattr(request, "session", None)
    # One that was made, ended or renamed on the way here (a middleware signed somebody in or out) has to be told.
    if session is None or session.session_key != request.COOKIES.get(settings.SESSION_COOKIE_NAME):
        return False
    accessed = bool(session.accessed)
    request.session = _Left(session)
    return accessed


class _Left:
    """A session that its middleware passes over, as it does where ``accessed`` is missing; all else is as it was."""

    def __init__(self, session: SessionBase) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name == "accessed":
            raise AttributeError(name)
        return getattr(self._session, name)

    def __contains__(self, key: str) -> bool:
        return key in self._session

    def __getitem__(self, key: str) -> Any:
        return self._session[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._session[key] = value

    def __delitem__(self, key: str) -> None:
        del self._session[key]


def record_logout(sender: Any, request: Any, **_: Any) -> None:
    """Revoke the tokens of a session that signs out where no trigger can see it (``user_logged_out``)."""
    key = lasting_key(getattr(request, "session", None))
    if not key or session_model() is not None:
        return
    note_change("session", key)


def note_change(kind: str, key: str) -> None:
    """Note a change that no trigger sees; ``key`` is as the database writes it."""
    generation, change = apps.get_model("entitlement", "Generation"), apps.get_model("entitlement", "Change")
    alias, now = router.db_for_write(change), int(time.time() * 1000)
    if connections[alias].vendor != "sqlite":  # who reads it numbers it (following/numbering.py)
        change.objects.create(generation=change.PENDING, kind=kind, key=key, time=now)
        return
    with transaction.atomic(using=alias):
        generation.objects.update(value=F("value") + 1)
        for value in generation.objects.values_list("value", flat=True):
            change.objects.create(generation=value, kind=kind, key=key, time=now)
