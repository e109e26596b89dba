"""The rights that the project's own Python gives a user, for the user's token: ``REALTIME["PERMISSIONS"]``."""

from __future__ import annotations

import difflib
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import override

from entitlement import conf
from entitlement.following.numbering import note
from entitlement.models import Change
from entitlement.patterns import fault
from fastpath.core.auth.tokens import PERMISSIONS_MAX

ACTIONS = {"subscribe": "sub", "publish": "pub", "both": "all"}
"""What the function calls an action, as rules do, and what a token calls it (protocol.md 8.4)."""

CLAIM_BYTES_MAX = 8 << 10
"""Patterns of one token as JSON: it goes through heads of HTTP, of which servers and proxies take 8 to 32 KiB."""

_FORM = '{"subscribe": ["/orders/42/**"], "publish": [], "both": []}'

_log = logging.getLogger(__name__)


class PermissionsError(RuntimeError):
    """The project's function has failed, or has answered what is no right: there is no token."""


class _Unusable(ValueError):
    """An answer of the function that gives no rights, and what is wrong with it."""


def function() -> Callable[..., Any] | None:
    """The project's function; None: the setting is not set. Raises ImproperlyConfigured."""
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
    """What the function permits this user, as the claim of a token; raises PermissionsError, which has been logged.

    Nothing for a superuser, who may do everything. A function that has a parameter ``request`` gets the one that asks
    for the token, or None where none does.
    """
    try:
        asked = function()
        if asked is None or getattr(user, "is_superuser", False):
            return {}
        with override(None):  # what is said of a pattern is for the log
            return _claim(_call(asked, asked, user, request))
    except Exception as error:
        what = f'{name_of(conf.permissions())}, REALTIME["PERMISSIONS"],'
        if isinstance(error, ImproperlyConfigured):
            why = str(error)
        elif isinstance(error, _Unusable):
            why = f"{what} has answered {error}"
        else:
            why = f"{what} failed: {type(error).__name__}: {error}"
        # A fault of the answer, or of the setting, is plain without the places that led to it.
        plain = isinstance(error, _Unusable | ImproperlyConfigured)
        _log.error("there is no token for %s: %s", user.get_username(), why, exc_info=not plain)
        raise PermissionsError(f"there is no token for {user.get_username()}: {why}") from error


def refresh_rights(user: AbstractBaseUser) -> None:
    """End the user's tokens of until now, so that clients come back with new ones, whose rights are found out anew.

    Within a second of the commit of the transaction around it; nothing that the user may still read is missed. A client
    whose token is not renewed by itself, such as a publisher's with one of ``realtime_token``, needs another one.
    """
    primary = get_user_model()._meta.pk
    connection = connections[router.db_for_write(Change)]
    note(Change.Kind.PASSWORD, str(primary.get_db_prep_value(user.pk, connection)))


def name_of(given: Any) -> str:
    """What a function is called in messages."""
    return given if isinstance(given, str) else str(getattr(given, "__qualname__", type(given).__qualname__))


def _call(call: Callable[..., Any], asked: Callable[..., Any], user: Any, request: HttpRequest | None) -> Any:
    """Call with the user, and the request where what is asked has a parameter of that name."""
    try:
        takes_request = "request" in inspect.signature(asked).parameters
    except ValueError:
        takes_request = False
    return call(user, request=request) if takes_request else call(user)


def _claim(answer: Any) -> dict[str, list[str]]:
    """An answer as the claim; raises _Unusable."""
    if answer is None:
        return {}
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise _Unusable("something to be awaited: use def, not async def")
    if not isinstance(answer, Mapping):
        raise _Unusable(f"{_shown(answer)}: rights are like {_FORM}")
    claim: dict[str, list[str]] = {}
    for action, patterns in answer.items():
        if action not in ACTIONS:
            close = difflib.get_close_matches(str(action).lower(), ACTIONS, 1, 0.3)
            raise _Unusable(f"the action {action!r}: {f'write {close[0]}' if close else f'rights are like {_FORM}'}")
        if found := list(dict.fromkeys(_patterns(action, patterns))):
            claim[ACTIONS[action]] = sorted(found)
    count, size = sum(map(len, claim.values())), len(json.dumps(claim, separators=(",", ":")))
    if count > PERMISSIONS_MAX or size > CLAIM_BYTES_MAX:
        raise _Unusable(
            f"{count} patterns of {size} bytes: a token carries {PERMISSIONS_MAX}, and {CLAIM_BYTES_MAX} bytes. "
            "Write fewer, with * and **, or rules of a group"
        )
    return claim


def _patterns(action: str, given: Any) -> Iterable[str]:
    """The patterns of an action; raises _Unusable."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise _Unusable(f"{_shown(given)} for {action!r}: that is a list of patterns")
    for count, pattern in enumerate(given):
        if count >= 10 * PERMISSIONS_MAX:  # a generator may have no end
            raise _Unusable(f"over {10 * PERMISSIONS_MAX} patterns for {action!r}: a token carries {PERMISSIONS_MAX}")
        if not isinstance(pattern, str):
            raise _Unusable(f"{_shown(pattern)} for {action!r}: a pattern is a text like '/orders/42/**'")
        if wrong := fault(pattern):
            raise _Unusable(f"the pattern {_shown(pattern)} for {action!r}: {wrong}")
        yield str(pattern)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
