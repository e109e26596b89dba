"""What a token says, how long it says it, and who gets none."""

from __future__ import annotations

import hashlib
import hmac
import time

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.backends.signed_cookies import SessionStore as CookieStore

from entitlement import conf, tokens
from entitlement.following.compiler import position
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify


def _claims(token: str):
    return verify(token, Keys(conf.token_secret()), int(time.time() * 1000))


def test_claims_are_those_that_the_sidecar_reads(bob, desk):
    bob.groups.add(desk)
    session = SessionStore()
    session.create()
    token, expires = tokens.mint(bob, session)
    claims = _claims(token)
    assert (claims.user, claims.uid, claims.groups, claims.superuser) == (
        "bob",
        str(bob.pk),
        (str(desk.pk),),
        False,
    )
    assert claims.generation == position().generation
    assert claims.session == hashlib.sha256(session.session_key.encode()).hexdigest()[:32]
    assert claims.expires == expires
    assert abs(expires / 1000 - time.time() - 12 * 3600) < 5


def test_secret_is_derived_from_the_secret_key_unless_set(settings):
    settings.SECRET_KEY = "key"
    settings.REALTIME = {}
    assert conf.token_secret() == hmac.new(b"key", b"realtime token", hashlib.sha256).hexdigest()
    settings.REALTIME = {"TOKEN_SECRET": "own"}
    assert conf.token_secret() == "own"


def test_a_stale_user_object_does_not_make_old_rights_look_new(bob, desk):
    bob.groups.add(desk)
    stale = User.objects.get(pk=bob.pk)
    stale.is_superuser = True
    list(stale.groups.all())
    bob.groups.remove(desk)
    claims = _claims(tokens.mint(stale)[0])
    assert (claims.groups, claims.superuser, claims.generation) == ((), False, position().generation)


def test_who_gets_no_token(bob):
    User.objects.filter(pk=bob.pk).update(is_active=False)
    with pytest.raises(tokens.MintError, match="bob is not an active user"):
        tokens.mint(bob)
    with pytest.raises(tokens.MintError, match="anonymous user is not an active user"):
        tokens.mint(AnonymousUser())
    bob.delete()
    with pytest.raises(tokens.MintError):
        tokens.mint(User(pk=4711, username="ghost"))


def test_lifetimes(bob, settings):
    session = SessionStore()
    session.create()

    def seconds(*args: object, **kwargs: object) -> int:
        return round(tokens.mint(bob, *args, **kwargs)[1] / 1000 - time.time())

    assert seconds(seconds=60) in range(50, 61)
    assert seconds(seconds=30 * 24 * 3600) > 29 * 24 * 3600
    assert seconds(session, seconds=24 * 3600) <= 12 * 3600, "changes of sessions are remembered no longer"
    settings.SESSION_COOKIE_AGE = 600
    assert seconds(session) <= 600
    with pytest.raises(tokens.MintError, match="at most"):
        tokens.mint(bob, seconds=31 * 24 * 3600)
    with pytest.raises(tokens.MintError, match="cannot be valid for 0 seconds"):
        tokens.mint(bob, seconds=0)


def test_a_session_without_a_lasting_key_gives_a_token_without_session(bob):
    assert _claims(tokens.mint(bob, SessionStore())[0]).session == ""
    cookie = CookieStore()
    cookie["a"] = 1
    cookie.save()
    assert cookie.session_key
    assert _claims(tokens.mint(bob, cookie)[0]).session == ""
