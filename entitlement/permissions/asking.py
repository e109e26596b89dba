"""The rights that the project's own Python gives a user, for the user's token: ``REALTIME["PERMISSIONS"]``."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import override

from entitlement import conf
from entitlement.permissions.answers import Unusable, claim_of

_log = logging.getLogger(__name__)


class PermissionsError(RuntimeError):
    """The project's function has failed, or has answered what is no right: there is no token."""


def function() -> Callable[..., Any] | None:
    """Return the project's function; None: the setting is not set. Raise ImproperlyConfigured."""
    given = conf.permissions()
    if given is None:
        return None
    try:
        found = import_string(given) if isinstance(given, str) else given
    except ImportError as error:
        raise ImproperlyConfigured(f'REALTIME["PERMISSIONS"] names no function: {error}.') from error
    except Exception as error:  # of its module
        why = f"{type(error).__name__}: {error}"
        raise ImproperlyConfigured(f'REALTIME["PERMISSIONS"]: {given} cannot be imported ({why}).') from error
    if not callable(found) or inspect.isclass(found):
        raise ImproperlyConfigured(
            f'REALTIME["PERMISSIONS"] is a function of a user, or its dotted path, not {given!r}.'
        )
    if inspect.iscoroutinefunction(found):
        raise ImproperlyConfigured(f'REALTIME["PERMISSIONS"]: {name_of(found)} is asked without await: use def.')
    try:
        _call(inspect.signature(found).bind, found, object(), None)
    except ValueError:
        pass  # one of C's that does not say
    except TypeError as error:
        raise ImproperlyConfigured(
            f'REALTIME["PERMISSIONS"]: {name_of(found)} cannot be called with a user ({error}).'
        ) from None
    return found  # type: ignore[no-any-return]


def permissions_of(user: AbstractBaseUser, request: HttpRequest | None = None) -> dict[str, list[str]]:
    """Return what the function permits this user, as the claim of a token; raise PermissionsError, which has been
    logged.

    Nothing for a superuser, who may do everything. A function that has a parameter ``request`` gets the one that asks
    for the token, or None where none does.
    """
    try:
        asked = function()
        if asked is None or getattr(user, "is_superuser", False):
            return {}
        with override(None):  # what is said of a pattern is for the log
            return claim_of(_call(asked, asked, user, request))
    except Exception as error:
        what = f'{name_of(conf.permissions())}, REALTIME["PERMISSIONS"],'
        if isinstance(error, ImproperlyConfigured):
            why = str(error)
        elif isinstance(error, Unusable):
            why = f"{what} has answered {error}"
        else:
            why = f"{what} failed: {type(error).__name__}: {error}"
        # A fault of the answer, or of the setting, is plain without the places that led to it.
        plain = isinstance(error, Unusable | ImproperlyConfigured)
        _log.error("there is no token for %s: %s", user.get_username(), why, exc_info=not plain)
        raise PermissionsError(f"there is no token for {user.get_username()}: {why}") from error


def name_of(given: Any) -> str:
    """Return what a function is called in messages."""
    return given if isinstance(given, str) else str(getattr(given, "__qualname__", type(given).__qualname__))


def _call(call: Callable[..., Any], asked: Callable[..., Any], user: Any, request: HttpRequest | None) -> Any:
    """Call with the user, and the request where what is asked has a parameter of that name."""
    try:
        takes_request = "request" in inspect.signature(asked).parameters
    except ValueError:
        takes_request = False
    return call(user, request=request) if takes_request else call(user)
