"""Tokens as Django mints them, for tests that have no Django (protocol.md 8.4)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import jwt

SECRET = "the secret of the tests, long enough for HS256"


def mint(
    user: str,
    uid: str = "",
    groups: Iterable[str] = (),
    superuser: bool = False,
    secret: str = SECRET,
    hours: float = 12,
    *,
    generation: int = 1,
    session: str = "",
    jti: str = "",
    audience: str = "fastpath",
    permissions: dict[str, list[str]] | None = None,
) -> str:
    """A token of mode ``rules``; ``hours`` may be negative for one that has ended."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "aud": audience,
        "sub": user,
        "uid": uid or user,
        "groups": list(groups),
        "su": superuser,
        "gen": generation,
        "iat": now,
        "exp": int(now + hours * 3600),
    }
    if session:
        claims["sid"] = session
    if jti:
        claims["jti"] = jti
    if permissions:
        claims["permissions"] = permissions
    return jwt.encode(claims, secret, algorithm="HS256")


def mint_jwt(
    user: str,
    subscribe: Iterable[str] = (),
    publish: Iterable[str] = (),
    both: Iterable[str] = (),
    secret: str = SECRET,
    hours: float = 12,
) -> str:
    """A token of mode ``jwt``, whose patterns it carries itself."""
    permissions = {"sub": list(subscribe), "pub": list(publish), "all": list(both)}
    return jwt.encode(
        {"sub": user, "exp": int(time.time() + hours * 3600), "permissions": permissions},
        secret,
        algorithm="HS256",
    )
