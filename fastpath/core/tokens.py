"""Verify a token and read its claims (protocol.md 8.4); minting is Django's."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import jwt
import msgspec

from .errors import Close, Refused

AUDIENCE = "fastpath"

_HEADERS = frozenset(
    urlsafe_b64encode(header).rstrip(b"=").decode()
    for header in (b'{"alg":"HS256","typ":"JWT"}', b'{"typ":"JWT","alg":"HS256"}', b'{"alg":"HS256"}')
)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


_NONE: tuple[str, ...] = ()
_NO_PERMISSIONS: dict[str, tuple[str, ...]] = dict.fromkeys(("sub", "pub", "all"), _NONE)


class Claims(msgspec.Struct, frozen=True, gc=False):
    """What a token says of its bearer; ``expires`` is in ms."""

    user: str
    expires: int
    uid: str = ""
    groups: tuple[str, ...] = ()
    superuser: bool = False
    generation: int = 0
    session: str = ""
    permissions: dict[str, tuple[str, ...]] = {}


def verify(token: str, secret: str, now: int, audience: str | None = AUDIENCE) -> Claims:
    """The claims of an HS256 token that is valid at ``now`` (ms); raises Refused.

    ``audience`` None accepts tokens that name none (an outside issuer's, mode ``jwt``). The time is compared
    here and not by the library, which would read the clock.
    """
    raw = _usual(token, secret, audience) or _any(token, secret, audience)
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


def _usual(token: str, secret: str, audience: str | None) -> dict[str, Any] | None:
    """The payload of a token in its usual spelling if its signature is right; None leaves the verdict to the library.

    A thousand clients that come back at once are verified here in a tenth of the library's time. What is accepted is
    less than what the library accepts: one header, the signature's one canonical spelling, plain claims.
    """
    signed, _, signature = token.rpartition(".")
    header, _, payload = signed.partition(".")
    if header not in _HEADERS or not token.isascii():
        return None
    digest = hmac.digest(secret.encode(), signed.encode(), "sha256")
    if not hmac.compare_digest(urlsafe_b64encode(digest)[:-1], signature.encode()):  # 32 bytes end in one "="
        return None
    try:
        raw = _decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, msgspec.DecodeError):
        return None
    if audience is not None and raw.get("aud") != audience:
        return None
    if raw.get("exp") is None or type(raw.get("sub")) is not str or "jti" in raw:
        return None
    return raw


def _any(token: str, secret: str, audience: str | None) -> dict[str, Any]:
    """The payload of any valid token; raises Refused with the library's reason."""
    try:
        raw: dict[str, Any] = jwt.decode(
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
        return raw
    except (jwt.InvalidTokenError, UnicodeError) as error:
        raise Refused(Close.BAD_TOKEN, f"the token is not valid: {error}") from None


def _read(raw: dict[str, Any]) -> Claims:
    permissions = _NO_PERMISSIONS
    if raw.get("permissions"):
        given = raw["permissions"]
        if not isinstance(given, dict):
            raise TypeError("permissions is a map of sub, pub and all to patterns")
        permissions = {kind: tuple(map(str, given.get(kind, ()))) for kind in _NO_PERMISSIONS}
    return Claims(
        user=str(raw["sub"]),
        expires=int(float(raw["exp"]) * 1000),
        uid=str(raw.get("uid", "")),
        groups=tuple(map(str, raw.get("groups", ()))),
        superuser=raw.get("su") is True,
        generation=int(raw.get("gen", 0)),
        session=str(raw.get("sid", "")),
        permissions=permissions,
    )
