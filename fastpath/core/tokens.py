"""Verify a token and read its claims (protocol.md 8.4); minting is Django's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jwt

from .errors import Close, Refused

AUDIENCE = "fastpath"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says of its bearer; ``expires`` is in ms."""

    user: str
    expires: int
    uid: str = ""
    groups: tuple[str, ...] = ()
    superuser: bool = False
    generation: int = 0
    session: str = ""
    permissions: dict[str, tuple[str, ...]] = field(default_factory=dict)


def verify(token: str, secret: str, now: int, audience: str | None = AUDIENCE) -> Claims:
    """The claims of an HS256 token that is valid at ``now`` (ms); raises Refused.

    ``audience`` None accepts tokens that name none (an outside issuer's, mode ``jwt``). The time is compared
    here and not by the library, which would read the clock.
    """
    try:
        raw = jwt.decode(
            token,
            secret,
            algorithms=["HS256"],
            audience=audience,
            options={
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_aud": audience is not None,
                "require": ["exp"],
            },
        )
    except jwt.InvalidTokenError as error:
        raise Refused(Close.BAD_TOKEN, f"the token is not valid: {error}") from None
    try:
        claims = _read(raw)
        starts = float(raw.get("nbf", 0)) * 1000
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise Refused(Close.BAD_TOKEN, f"the token's claims are malformed: {error}") from None
    if claims.expires <= now:
        raise Refused(Close.TOKEN_EXPIRED, "the token has expired")
    if starts > now:
        raise Refused(Close.BAD_TOKEN, "the token is not valid yet")
    return claims


def _read(raw: dict[str, Any]) -> Claims:
    permissions = raw.get("permissions") or {}
    if not isinstance(permissions, dict):
        raise TypeError("permissions is a map of sub, pub and all to patterns")
    return Claims(
        user=str(raw["sub"]),
        expires=int(float(raw["exp"]) * 1000),
        uid=str(raw.get("uid", "")),
        groups=tuple(str(group) for group in raw.get("groups", ())),
        superuser=raw.get("su") is True,
        generation=int(raw.get("gen", 0)),
        session=str(raw.get("sid", "")),
        permissions={
            kind: tuple(str(pattern) for pattern in permissions.get(kind, ())) for kind in ("sub", "pub", "all")
        },
    )
