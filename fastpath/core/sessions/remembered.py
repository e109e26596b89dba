"""Somebody who was let in, as bytes can say it: for what is done in his name when his connection, or process, is gone.

What is remembered gives no right by itself: rights are asked when something is done (``Grants.refreshed``).
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ..auth.grants import Grants, Principal
from ..auth.keys import Key
from ..auth.tokens import Claims
from ..protocol.errors import Close, Refused


class Remembered(msgspec.Struct, omit_defaults=True):
    """A principal: the mode that let him in, what his token said, and a digest of the key that had signed it."""

    mode: str
    user: str = ""
    superuser: bool = False
    claims: Claims | None = None
    key: bytes = b""


def remember(grants: Grants, principal: Principal) -> Remembered:
    """Return what is to be kept of the principal. No key, token or password is in it."""
    claims = principal.claims
    if claims is None:
        return Remembered(grants.mode, principal.user, principal.superuser)
    digest = _digest(claims.key) if claims.key is not None else b""
    return Remembered(grants.mode, principal.user, False, msgspec.structs.replace(claims, key=None), digest)


def recall(grants: Grants, remembered: Remembered) -> Principal:
    """Return the principal under these grants; raise Refused when rights are decided in another way now, or the key of
    the token does not count any more."""
    if remembered.mode != grants.mode:
        raise Refused(Close.REVOKED, f"mode {remembered.mode} had let in who it was")
    claims = remembered.claims
    if claims is None:
        stranger = grants.principal("", 0)
        return Principal(None, remembered.superuser, stranger.holders, remembered.user)
    key = None
    if remembered.key:
        found = grants.keys.all if grants.keys is not None else ()
        key = next((one for one in found if _digest(one) == remembered.key), None)
        if key is None:
            raise Refused(Close.TOKEN_EXPIRED, "the key of the token does not count any more")
    return Principal(msgspec.structs.replace(claims, key=key), False, (), remembered.user)


def _digest(key: Key) -> bytes:
    material = key.material if isinstance(key.material, bytes) else b""
    return sha256(b"\0".join((key.kid.encode(), key.algorithm.encode(), key.members.encode(), material))).digest()
