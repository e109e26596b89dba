"""Verify a token and read its claims (protocol.md 8.4); minting is Django's."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import jwt
import msgspec

from ..protocol.errors import Close, InvalidSubject, Refused
from ..protocol.subject import NAMES, RESERVED, USERS, check_pattern, named_segment
from .keys import Key, Keys

AUDIENCE = "fastpath"

TOKEN_CHARS_MAX = 64 << 10
"""A longer token is refused unread."""

HEADER_CHARS_MAX = 4096
PERMISSIONS_MAX = 1000
"""Patterns in one token, so that a check stays cheap."""

LEEWAY_MS = 10_000
"""Milliseconds by which a token is taken before its ``nbf``, unless they are set otherwise: clocks of issuers are ahead
by seconds, and a token that one has just got is meant to be used."""

NUMBER_END = 1 << 53
"""The numbers of a token, times in ms, are nearer to 0: clients and Django's hooks are told of them."""

NO_KEYS = "the keys that tokens are checked by have not arrived yet: come again"
NOT_YET = "the token is not valid yet"
KEY_UNKNOWN = "no key that counts here has signed the token: get a new token"
PASSWORD_CHANGED = "the password or the rights were changed: get a new token"  # noqa: S105 - a text

_decode = msgspec.json.Decoder(dict[str, Any]).decode

_NONE: tuple[str, ...] = ()
_NO_PERMISSIONS: dict[str, tuple[str, ...]] = dict.fromkeys(("sub", "pub", "all"), _NONE)


class Claims(msgspec.Struct, frozen=True, gc=False):
    """The claims of a token about its bearer; ``expires`` is in ms."""

    user: str
    expires: int
    uid: str = ""
    groups: tuple[str, ...] = ()
    superuser: bool = False
    generation: int = 0
    session: str = ""
    permissions: dict[str, tuple[str, ...]] = {}
    token_id: str = ""
    """``jti:`` and the token's own id: what it is revoked by (protocol.md 8.3)."""
    key: Key | None = None
    """Key that the token is signed with."""


class ClaimMap(msgspec.Struct, frozen=True):
    """Names of the claims of an outside issuer's tokens that say who the bearer is; ``a.b`` is the claim b inside of a.

    ``subscribe`` and ``publish`` are patterns that everybody with a token has, in place of the claim ``permissions``.
    In all of these ``{group}`` stands for each of the groups, and ``{CLAIM}`` for each text or whole number there.
    """

    user: str = "sub"
    groups: str = "groups"
    subscribe: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()


GROUP = "group"
"""Name that stands in braces for each of the bearer's groups."""

_MARKS = frozenset("*{}")


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""


_decode_header = msgspec.json.Decoder(_Header).decode


def verify(
    token: str,
    keys: Keys,
    now: int,
    audience: str = AUDIENCE,
    issuer: str = "",
    *,
    audience_optional: bool = False,
    leeway_ms: int = LEEWAY_MS,
    claim_map: ClaimMap | None = None,
) -> Claims:
    """Return the claims of a token that one of the keys has signed and that is valid at ``now`` (ms); raise Refused.

    ``claim_map`` is for an outside issuer's tokens; None: they are Django's. ``audience_optional`` takes tokens that
    name no audience, too (an outside issuer's, mode ``jwt``); one that names another is never taken (RFC 7519 §4.1.3).
    The leeway is of the beginning alone: no right lasts longer by it. A token that is not valid yet is not bad, its
    bearer comes again. The times are compared here and not by the library, which would read the clock.
    """
    raw, key = signed_content(token, keys)
    _check_address(raw, audience, issuer, audience_optional)
    try:
        claims = _read(raw, key) if claim_map is None else _read_mapped(raw, key, claim_map)
        starts = float(raw.get("nbf", 0)) * 1000
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise Refused(Close.BAD_TOKEN, f"the token's claims are malformed: {error}") from None
    if claims.expires <= now:
        raise Refused(Close.TOKEN_EXPIRED, "the token has expired")
    if not starts < NUMBER_END:  # nor NaN
        raise Refused(Close.BAD_TOKEN, "the token's claims are malformed: nbf is no time")
    if starts > now + leeway_ms:
        seconds = (starts - now) / 1000
        raise Refused(Close.NOT_READY, f"{NOT_YET}: by this server's clock in {seconds:.0f} s; come again")
    return claims


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token, be it one that counts or not; a password has another form."""
    header, _, rest = text.partition(".")
    if rest.count(".") != 1 or not 0 < len(header) <= HEADER_CHARS_MAX:
        return False
    try:
        _decode_header(urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return False
    return True


def signed_content(token: str, keys: Keys) -> tuple[dict[str, Any], Key]:
    """Return a token's content, valid now or not, and the key that has signed it; raises Refused."""
    if len(token) > TOKEN_CHARS_MAX:
        raise Refused(Close.BAD_TOKEN, f"the token has over {TOKEN_CHARS_MAX} characters")
    return _usual(token, keys) or _any(token, keys)


def _usual(token: str, keys: Keys) -> tuple[dict[str, Any], Key] | None:
    """Return the payload of an HS256 token in its usual spelling if its signature is right; None leaves it to the
    library.

    A thousand clients that come back at once are verified here in a tenth of the library's time. What is accepted is
    less than what the library accepts: few headers, the signature's one canonical spelling, plain claims.
    """
    signed, _, signature = token.rpartition(".")
    header, _, payload = signed.partition(".")
    key = keys.usual.get(header)
    if key is None or not token.isascii():
        return None
    digest = hmac.digest(key.material, signed.encode(), "sha256")
    if not hmac.compare_digest(urlsafe_b64encode(digest)[:-1], signature.encode()):  # 32 bytes end in one "="
        return None
    try:
        raw = _decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    if raw.get("exp") is None or type(raw.get("sub")) is not str or type(raw.get("jti", "")) is not str:
        return None
    return raw, key


def _any(token: str, keys: Keys) -> tuple[dict[str, Any], Key]:
    """Return the payload of any token that a key has signed; raise Refused with the library's reason.

    A token whose ``kid`` is not known is not called bad but spent: its key may have been taken out of use, or is so new
    that it has not arrived here. Its bearer comes back with another.
    """
    try:
        encoded = token.partition(".")[0]
        if len(encoded) > HEADER_CHARS_MAX:
            raise ValueError("its header is too long")
        header = _decode_header(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, msgspec.DecodeError, RecursionError):
        raise Refused(Close.BAD_TOKEN, "the token is not valid: it has no header of a JWT") from None
    if keys.empty:
        raise Refused(Close.NOT_READY, NO_KEYS)
    reason = f"no key here is for {header.alg[:20]!r}"
    for key in keys.candidates(header.kid, header.alg):
        try:
            return _decode_signed(token, key), key
        except (jwt.InvalidTokenError, UnicodeError, ValueError, RecursionError) as error:
            reason = str(error) or type(error).__name__
    if header.kid and keys.miss(header.kid):
        raise Refused(Close.TOKEN_EXPIRED, KEY_UNKNOWN)
    raise Refused(Close.BAD_TOKEN, f"the token is not valid: {reason}")


def _decode_signed(token: str, key: Key) -> dict[str, Any]:
    """Return the payload of a token that this key has signed, by the library; raise what the library raises."""
    raw: dict[str, Any] = jwt.decode(
        token,
        key.material,
        algorithms=[key.algorithm],
        options={
            "verify_exp": False,
            "verify_iat": False,
            "verify_nbf": False,
            "verify_aud": False,
            "require": ["exp"],
        },
    )
    return raw


def _check_address(raw: dict[str, Any], audience: str, issuer: str, optional: bool) -> None:
    """Refuse a token that is meant for others, or comes from others."""
    named = raw.get("aud")
    if named != audience and not (isinstance(named, list) and audience in named) and not (optional and named is None):
        shown = "no audience" if named is None else f"the audience {str(named)[:80]!r}"
        raise Refused(Close.BAD_TOKEN, f"the token names {shown}, not {audience!r}")
    if issuer and raw.get("iss") != issuer:
        raise Refused(Close.BAD_TOKEN, f"the token is not of the issuer {issuer!r}")


def _read(raw: dict[str, Any], key: Key) -> Claims:
    return Claims(
        user=str(raw["sub"]),
        expires=_whole(float(raw["exp"]) * 1000),
        uid=str(raw.get("uid", "")),
        groups=tuple(map(str, raw.get("groups", ()))),
        superuser=raw.get("su") is True,
        generation=_whole(raw.get("gen", 0)),
        session=str(raw.get("sid", "")),
        permissions=_permissions(raw.get("permissions")),
        token_id=f"jti:{raw['jti']}" if raw.get("jti") else "",
        key=key,
    )


def _read_mapped(raw: dict[str, Any], key: Key, claim_map: ClaimMap) -> Claims:
    """Return the claims of an outside issuer; raise ValueError for a token that names nobody."""
    if claim_map.user == "sub":
        user = str(raw["sub"])
    else:
        [user] = _texts(_value(raw, claim_map.user)) or [""]
    if claim_map.user != "sub" and not user:
        raise ValueError(f"no user in {claim_map.user}")
    groups = _texts(_value(raw, claim_map.groups))
    own = {"sub": claim_map.subscribe, "pub": claim_map.publish}
    given = _permissions(None if any(own.values()) else raw.get("permissions")) | (own if any(own.values()) else {})
    permissions = {kind: tuple(_filled(patterns, raw, groups)) for kind, patterns in given.items()}
    if sum(map(len, permissions.values())) > PERMISSIONS_MAX:
        raise ValueError(f"over {PERMISSIONS_MAX} patterns in permissions")
    told = {**raw, "sub": user, "groups": groups, "permissions": None}
    return msgspec.structs.replace(_read(told, key), permissions=permissions)


def _value(raw: dict[str, Any], path: str) -> Any:
    """Return the claim of this name, or the one inside of others; None where there is none."""
    if path in raw:
        return raw[path]
    found: Any = raw
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _texts(value: Any) -> list[str]:
    """Return the texts and whole numbers of a claim, which may be a list of them; nothing else is a name."""
    values = value if isinstance(value, list) else [value]
    return [str(one) for one in values if isinstance(one, str) or type(one) is int]


def check_permission(pattern: str) -> None:
    """Accept a pattern in which claims may stand, else raise InvalidSubject."""
    segments = pattern.split("/")
    if segments[1:2] == [USERS] and segments[2:3] and segments[2] not in NAMES and _is_claim(segments[2]):
        raise InvalidSubject(f"behind /user/ stands a name, not {segments[2]}", pattern)
    check_pattern("/".join("x" if _is_claim(segment) and segment not in NAMES else segment for segment in segments))


def _is_claim(segment: str) -> bool:
    """Return whether a segment stands for a claim."""
    return len(segment) > 2 and segment[0] == "{" and segment[-1] == "}" and _MARKS.isdisjoint(segment[1:-1])


def _filled(patterns: Iterable[str], raw: dict[str, Any], groups: list[str]) -> Iterator[str]:
    """Yield the patterns, with each value of a claim where its name stands in braces; raise ValueError for very many.

    A value that is no segment, or could be read as something else than itself, stands nowhere: so does any behind
    ``/user/``, where one user's id may be another one's name.
    """
    for pattern in patterns:
        choices: list[list[str]] = []
        segments = pattern.split("/")
        for place, segment in enumerate(segments):
            if segment in NAMES or not _is_claim(segment):
                choices.append([segment])
                continue
            name = segment[1:-1]
            values = groups if name == GROUP else _texts(_value(raw, name))
            if place == 1:
                values = [value for value in values if value not in RESERVED]
            elif place == 2 and segments[1] == USERS:
                values = []
            choices.append([value for value in values if named_segment(value) and _MARKS.isdisjoint(value)])
        for count, filled in enumerate(product(*choices)):
            if count > PERMISSIONS_MAX:
                raise ValueError(f"over {PERMISSIONS_MAX} patterns in permissions")
            yield "/".join(filled)


def _whole(number: Any) -> int:
    """Return a number as an integer; raise ValueError for one that not each form and language has (RFC 8259 6)."""
    whole = int(number)
    if abs(whole) >= NUMBER_END:
        raise ValueError("a number is beyond 2^53")
    return whole


def _permissions(given: Any) -> dict[str, tuple[str, ...]]:
    """Return the patterns by action; raise TypeError for what is not lists of texts."""
    if not given:
        return _NO_PERMISSIONS
    if not isinstance(given, dict) or not all(isinstance(given.get(kind, []), list) for kind in _NO_PERMISSIONS):
        raise TypeError("permissions is a map of sub, pub and all to lists of patterns")
    permissions = {kind: tuple(map(str, given.get(kind, ()))) for kind in _NO_PERMISSIONS}
    if sum(map(len, permissions.values())) > PERMISSIONS_MAX:
        raise ValueError(f"over {PERMISSIONS_MAX} patterns in permissions")
    return permissions
