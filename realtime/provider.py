"""Signs in who brings a token of an identity provider: ``REALTIME["PROVIDER"]`` says which claims are whom."""

from __future__ import annotations

import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import AbstractBaseUser, Group
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import APIException, AuthenticationFailed
from rest_framework.request import Request

from fastpath.core.auth.keys import Keys, check_address, read_key_set
from fastpath.core.auth.tokens import ClaimMap, Claims, verify
from fastpath.core.protocol.errors import Close, InvalidKeys, Refused
from realtime.conf import conf

KEYS_SECONDS = 300.0
"""Seconds after which the provider's keys are asked for again."""

MISSED_SECONDS = 10.0
"""Seconds at least between two questions for keys that tokens with an unknown key cause."""

RETRY_SECONDS_MAX = 60.0
FETCH_SECONDS = 5.0
KEYS_BYTES_MAX = 1 << 20

_log = logging.getLogger(__name__)


class ProviderSettings(NamedTuple):
    """``REALTIME["PROVIDER"]``; ``groups`` has Django's group of values of the claim, and no other group is touched."""

    keys: str
    issuer: str
    audience: str
    user_claim: str
    user_prefix: str
    groups_claim: str
    groups: Mapping[str, str]


_DEFAULTS: dict[str, Any] = {
    "USER_CLAIM": "sub",
    "USER_PREFIX": "provider-",
    "GROUPS_CLAIM": "groups",
    "GROUPS": {},
}
_NEEDED = ("KEYS", "ISSUER", "AUDIENCE")


def provider_settings() -> ProviderSettings:
    """Return the setting; raise ImproperlyConfigured."""
    given = conf.provider
    if not isinstance(given, dict) or not given:
        raise ImproperlyConfigured(
            'REALTIME["PROVIDER"] is not set: {"KEYS": "https://id.example.com/keys", "ISSUER": …, "AUDIENCE": …}.'
        )
    if unknown := sorted(map(str, set(given) - {*_DEFAULTS, *_NEEDED})):
        words = f"{unknown[0]!r} is none of {', '.join((*_NEEDED, *_DEFAULTS))}"
        raise ImproperlyConfigured(f'REALTIME["PROVIDER"]: {words}.')
    values = _DEFAULTS | given
    for name in (*_NEEDED, "USER_CLAIM", "USER_PREFIX", "GROUPS_CLAIM"):
        if not isinstance(values.get(name), str) or not (values[name] or name == "USER_PREFIX"):
            raise ImproperlyConfigured(f'REALTIME["PROVIDER"]["{name}"] is a text, not {values.get(name)!r}.')
    if why := check_address(values["KEYS"]):
        raise ImproperlyConfigured(f'REALTIME["PROVIDER"]["KEYS"]: {why}.')
    groups = values["GROUPS"]
    if not isinstance(groups, dict) or not all(isinstance(text, str) for pair in groups.items() for text in pair):
        raise ImproperlyConfigured('REALTIME["PROVIDER"]["GROUPS"] is like {"ny-desk": "NYSE desk"}: Django\'s group.')
    return ProviderSettings(
        *(values[name] for name in (*_NEEDED, "USER_CLAIM", "USER_PREFIX", "GROUPS_CLAIM", "GROUPS"))
    )


class Unavailable(APIException):
    """The provider's keys have not come yet."""

    status_code = 503
    default_detail = "The identity provider's keys cannot be had now; retry."


class ProviderAuthentication(BaseAuthentication):
    """``Authorization: Bearer TOKEN``, an access token of the provider, for a user whom it may make."""

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, dict[str, Any]] | None:
        """Return the user, and until when the token counts; raise AuthenticationFailed, Unavailable."""
        scheme, _, token = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        settings = provider_settings()
        claims = claims_of(token.strip(), settings)
        return user_of(claims, settings), {"exp": claims.expires // 1000}

    def authenticate_header(self, request: Request) -> str:
        """Return what a client that gave nothing should give."""
        return "Bearer"


def claims_of(token: str, settings: ProviderSettings) -> Claims:
    """Return what a good token says; raise AuthenticationFailed, Unavailable."""
    keys = _sets.keys(settings.keys)
    names = ClaimMap(settings.user_claim, settings.groups_claim)
    for last in (False, True):
        missed = keys.missed
        try:
            return verify(*(token, keys, int(time.time() * 1000), settings.audience, settings.issuer), claim_map=names)
        except Refused as error:
            if error.code == Close.NOT_READY and keys.empty:
                raise Unavailable from None
            if last or keys.missed == missed or not _sets.refresh(settings.keys, MISSED_SECONDS):
                raise AuthenticationFailed(error.reason) from None
    raise AssertionError


def user_of(claims: Claims, settings: ProviderSettings) -> AbstractBaseUser:
    """Return the user of these claims, made at the first visit, in the groups that they say; raise
    AuthenticationFailed."""
    model = get_user_model()
    name = f"{settings.user_prefix}{claims.user}"
    field = model._meta.get_field(model.USERNAME_FIELD)
    if len(name) > (field.max_length or len(name)):
        raise AuthenticationFailed("the user's name is too long")
    with transaction.atomic():
        user, _ = model._default_manager.get_or_create(
            **{model.USERNAME_FIELD: name}, defaults={"password": make_password(None)}
        )
        if not user.is_active:
            raise AuthenticationFailed("this user is locked out")
        if settings.groups:
            _put_into_groups(user, {settings.groups[one] for one in claims.groups if one in settings.groups}, settings)
    return user


def _put_into_groups(user: Any, wanted: set[str], settings: ProviderSettings) -> None:
    """Put the user into those groups of the setting and no others; write nothing where nothing has changed."""
    ours = set(settings.groups.values())
    current = set(user.groups.filter(name__in=ours).values_list("name", flat=True))
    if gone := current - wanted:
        user.groups.remove(*Group.objects.filter(name__in=gone))
    for name in sorted(wanted - current):
        user.groups.add(Group.objects.get_or_create(name=name)[0])


class _KeySets:
    """The keys of addresses, as this process has fetched them last; those that were there count on while none come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Keys] = {}
        self._asked: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def keys(self, address: str) -> Keys:
        """Return the keys of an address; empty where they have never come."""
        keys = self._known.setdefault(address, Keys())
        # While another thread asks, those that were there count.
        if self._is_due(address) and self._lock.acquire(blocking=keys.empty):
            try:
                if self._is_due(address):
                    self._fetch(address)
            finally:
                self._lock.release()
        return keys

    def _is_due(self, address: str) -> bool:
        return self._clock() >= self._due.get(address, 0.0)

    def refresh(self, address: str, seconds: float) -> bool:
        """Ask again, unless that was done so shortly before; whether it was done."""
        with self._lock:
            if self._clock() - self._asked.get(address, 0.0) < seconds:
                return False
            return self._fetch(address)

    def _fetch(self, address: str) -> bool:
        moment = self._asked[address] = self._clock()
        try:
            found, _ = read_key_set(_fetched(address), public=True)
        except (OSError, ValueError, InvalidKeys) as error:
            failures = self._failures[address] = self._failures.get(address, 0) + 1
            self._due[address] = moment + min(2.0 ** (failures - 1), RETRY_SECONDS_MAX)
            _log.error("%s: %s; the keys are left as they are", address, error)
            return False
        self._known[address].replace(found)
        self._failures[address], self._due[address] = 0, moment + KEYS_SECONDS
        return True


class _Stays(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the keys are those of the address that was named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetched(address: str) -> bytes:
    """Return what the address answers; raise OSError, ValueError."""
    with urllib.request.build_opener(_Stays).open(address, timeout=FETCH_SECONDS) as answer:  # check_address looked
        data: bytes = answer.read(KEYS_BYTES_MAX + 1)
    if len(data) > KEYS_BYTES_MAX:
        raise ValueError("it is too long for a JWK set")
    return data


_sets = _KeySets()
