"""Mint the tokens that the sidecar accepts in mode ``rules`` (protocol.md 8.4), and know whose one is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import jwt
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.contrib.sessions.backends.base import SessionBase
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext

from entitlement import conf, keys
from entitlement.following.compiler import group_ids, name_of, position
from entitlement.models import Change, DeletedChange, RevokedToken
from entitlement.permissions.asking import permissions_of
from entitlement.sessions import lasting_key, seconds_left, session_id
from fastpath.core.auth.tokens import AUDIENCE, PASSWORD_CHANGED, signed_content, verify
from fastpath.core.protocol.errors import Refused

JTI_CHARS_MAX = 255


class MintError(ValueError):
    """A token that cannot be given: nobody, not active, or valid for too long."""


class RevokeError(ValueError):
    """The text is no token of this project, or a token that cannot be told from others."""


class TokenRefused(ValueError):
    """A token that does not count here and now; the text says why."""


class UnknownUser(ValueError):
    """A name that no user has."""


def user_named(name: str) -> AbstractBaseUser:
    """Return the user of this name; raise UnknownUser, which lists some who exist."""
    model = get_user_model()
    try:
        user: AbstractBaseUser = model._default_manager.get_by_natural_key(name)
    except model.DoesNotExist:
        field = model.USERNAME_FIELD
        some = ", ".join(map(str, model._default_manager.order_by(field).values_list(field, flat=True)[:8]))
        hint = f"some are {some}" if some else "there are none; run realtime_demo or createsuperuser"
        raise UnknownUser(f"There is no user {name!r}; {hint}.") from None
    return user


def mint(
    user: AbstractBaseUser,
    session: SessionBase | None = None,
    seconds: int | None = None,
    *,
    request: HttpRequest | None = None,
) -> tuple[str, int]:
    """Return a token for this user as the database knows it now, and when it ends (ms).

    Raises MintError, KeysError; PermissionsError where ``REALTIME["PERMISSIONS"]`` gives no rights that a token could
    carry, as its function fails: ``request`` is what that function is told, where it asks for one.

    The token of a session is revoked with it, and outlives neither it nor the default validity. Groups and flags are
    read anew, after the generation: a user object that is some seconds old must not make an old right look new. The
    token is signed with the newest key of REALTIME["TOKEN_KEYS"], else with the secret.
    """
    lifetime = _lifetime(session, seconds)
    now = time.time()
    at = position()
    fresh = get_user_model()._base_manager.filter(pk=user.pk).first()
    if fresh is None or not fresh.is_active:
        raise MintError(f"{user.get_username() or 'an anonymous user'} is not an active user: there is no token.")
    claims: dict[str, Any] = {
        "aud": AUDIENCE,
        "sub": name_of(fresh),
        "uid": str(fresh.pk),
        "groups": group_ids([fresh.pk]).get(fresh.pk, []),
        "su": bool(getattr(fresh, "is_superuser", False)),
        "gen": at.generation if at else 0,
        "iat": int(now),
        "exp": int(now) + lifetime,
        "jti": secrets.token_urlsafe(12),
    }
    if key := lasting_key(session):
        claims["sid"] = session_id(key)
    if permitted := permissions_of(fresh, request):
        claims["permissions"] = permitted
    return _signed(claims), claims["exp"] * 1000


def expired() -> str:
    """Return a token of nobody that ended long ago, signed like all: only who has the keys can tell that; raise
    KeysError."""
    return _signed({"aud": AUDIENCE, "sub": "", "iat": 0, "exp": 1})


def revoke(token: str, by: AbstractBaseUser | None = None, note: str = "") -> RevokedToken:
    """Take back one token, given as it is or by its id (``jti``); raises RevokeError.

    Connections that it opened are closed within a second (4502), and it opens none any more. That stays so: who is to
    have rights again gets another token.
    """
    found = find(token)
    values = {"user_name": found.user_name, "expires": found.expires, "by": by, "note": note}
    return RevokedToken.objects.get_or_create(jti=found.jti, defaults=values)[0]


def find(token: str) -> RevokedToken:
    """Return the entry by which this token, or the token of this id, is revoked, saved or not; raise RevokeError."""
    text = token.strip()
    latest = time.time() + conf.token_seconds_max()
    user, expires = "", latest
    if "." in text:
        try:
            content, _ = signed_content(text, keys.verification_keys())
        except Refused as error:
            words = gettext("This is no token that this project has signed (%(reason)s).")
            raise RevokeError(words % {"reason": error.reason}) from None
        user, expires, text = str(content.get("sub", "")), float(content["exp"]), str(content.get("jti") or "")
        if not text:
            raise RevokeError(gettext("This token has no id to be told by: change the user's password instead."))
    if not text or len(text) > JTI_CHARS_MAX or any(char.isspace() for char in text):
        words = gettext("Give a token, or its id (jti) of at most %(most)s characters.")
        raise RevokeError(words % {"most": JTI_CHARS_MAX})
    known = RevokedToken.objects.filter(jti=text).first()
    ends = datetime.fromtimestamp(min(expires, latest), UTC)
    return known or RevokedToken(jti=text, user_name=user[:JTI_CHARS_MAX], expires=ends)


def bearer(token: str) -> AbstractBaseUser:
    """Return the user whose token of this project this is, as the database knows it now; raise TokenRefused.

    What ends a token on the sidecar ends it here: its time, a new password, the end of its session, its revocation.
    """
    try:
        claims = verify(token, keys.verification_keys(), int(time.time() * 1000))
    except Refused as error:
        raise TokenRefused(error.reason) from None
    model = get_user_model()
    primary = model._meta.pk
    try:
        user: AbstractBaseUser | None = model._base_manager.filter(pk=primary.to_python(claims.uid)).first()
    except (ValidationError, ValueError, OverflowError):
        user = None  # the token of another project with the same secret
    if user is None or not user.is_active:
        raise TokenRefused("the user is not active")
    if RevokedToken.objects.filter(jti=claims.token_id.removeprefix("jti:")).exists():
        raise TokenRefused("the token was revoked")
    # Compared here, as the database writes keys in its own way and tokens name sessions by a digest: they are those of
    # the hours that a token lives.
    since = Q(generation__gt=claims.generation) | Q(generation=Change.PENDING)
    notes = (Change.objects.filter(since).order_by(), DeletedChange.objects.order_by())
    if any(_is_key_of(user, key) for key in _keys(notes, Change.Kind.PASSWORD)):
        raise TokenRefused(PASSWORD_CHANGED)
    if claims.session and any(session_id(key) == claims.session for key in _keys(notes, Change.Kind.SESSION)):
        raise TokenRefused("signed out")
    return user


def _keys(notes: Iterable[QuerySet[Any]], kind: Change.Kind) -> Iterator[str]:
    for some in notes:
        yield from some.filter(kind=kind).values_list("key", flat=True).iterator()


def _is_key_of(user: AbstractBaseUser, key: str) -> bool:
    """Return True if a key in the log is this user's; one that is nobody's is not."""
    try:
        return bool(user._meta.pk.to_python(key) == user.pk)
    except (ValidationError, ValueError, TypeError):
        return False


def _signed(claims: dict[str, Any]) -> str:
    key = keys.signing_key()
    if key is None:
        return jwt.encode(claims, conf.token_secret(), algorithm="HS256")
    return jwt.encode(claims, key.private, algorithm=key.algorithm, headers={"kid": key.kid})


def _lifetime(session: SessionBase | None, seconds: int | None) -> int:
    """Return the lifetime of a new token in seconds; raise MintError for one that is not allowed."""
    asked = conf.token_seconds() if seconds is None else seconds
    if asked <= 0:
        raise MintError(f"A token cannot be valid for {asked} seconds.")
    if session is not None:
        return max(1, min(asked, conf.token_seconds(), seconds_left(session)))
    if asked > conf.token_seconds_max():
        raise MintError(
            f"A token may be valid for {conf.token_seconds_max()} seconds at most "
            '(REALTIME["TOKEN_SECONDS_MAX"]), not for '
            f"{asked}: changes of users are remembered that long."
        )
    return asked
