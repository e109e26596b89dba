"""The private keys that tokens are signed with: a JWK set in a file (RFC 7517), made, rotated and made public.

The newest key signs, once the sidecars have had time to read its public part. The one before it stays in the set until
the last token that it signed has ended.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from django.core.exceptions import ImproperlyConfigured
from jwt import PyJWK
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from entitlement import conf
from fastpath.core.auth.keys import Keys, read_key_set
from fastpath.core.protocol.errors import InvalidKeys

ALGORITHMS = ("EdDSA", "ES256", "RS256")

START_SECONDS = 10
"""Seconds that a new key waits before it signs: a sidecar reads its public part within a second, once it has the
file."""

_RSA_BITS = 3072
_PUBLIC = ("kty", "crv", "n", "e", "x", "y", "kid", "alg", "use")


class KeysError(ImproperlyConfigured):
    """A file of keys that cannot be used; the text says why and what helps."""


class SigningKey(NamedTuple):
    """The key that new tokens are signed with."""

    kid: str
    algorithm: str
    private: Any


_Stamp = tuple[int, int, int]
_read: dict[str, tuple[_Stamp, list[dict[str, Any]], dict[str, SigningKey]]] = {}
"""Keys that were read of each file, and in which state that was: reading a private key takes milliseconds."""


def signing_key() -> SigningKey | None:
    """Return the key that signs now; None: the secret does. Raise KeysError."""
    path = conf.token_keys()
    if not path:
        return None
    jwks, ready = _load(path)
    chosen = signer(jwks, int(time.time()))
    if chosen is None:
        raise KeysError(f"{path} holds no private key: make one with `manage.py realtime_keys --new EdDSA`.")
    kid = chosen["kid"]
    if kid not in ready:
        try:
            ready[kid] = SigningKey(kid, chosen["alg"], PyJWK(chosen, chosen["alg"]).key)
        except (PyJWTError, ValueError) as error:
            raise KeysError(f"{path}: the key {kid} cannot be used: {error}") from None
    return ready[kid]


def verification_keys() -> Keys:
    """Return the keys that verify tokens of this project, here as in the sidecar; raise KeysError."""
    path = conf.token_keys()
    named = read_key_set(json.dumps(public_set(load(path))).encode())[0] if path else []
    return Keys(conf.token_secret(), named)


def load(path: str) -> list[dict[str, Any]]:
    """Return the keys in the file, oldest first, all with ``kid`` and ``alg``; raise KeysError."""
    return _load(path)[0]


def signer(jwks: list[dict[str, Any]], now: int) -> dict[str, Any] | None:
    """Return the newest private key that has begun to sign (``nbf``); where none has, the one that begins first."""
    private = [jwk for jwk in jwks if "d" in jwk and jwk.get("exp", now + 1) > now]
    begun = [jwk for jwk in private if jwk.get("nbf", 0) <= now]
    if begun:
        return max(begun, key=lambda jwk: int(jwk.get("nbf", 0)))
    return min(private, key=lambda jwk: int(jwk.get("nbf", 0)), default=None)


def rotate(path: str, algorithm: str, start_seconds: int = START_SECONDS) -> dict[str, Any]:
    """Put a new key into the file, which is made if need be, and publish it; the new key. Raises KeysError.

    The keys before it get an end: when the last token that they can have signed has ended. Those past theirs go.
    """
    now = int(time.time())
    jwks = [jwk for jwk in (load(path) if Path(path).exists() else []) if jwk.get("exp", now + 1) > now]
    begins = now + (start_seconds if signer(jwks, now) else 0)
    for jwk in jwks:
        jwk.setdefault("exp", begins + conf.token_seconds_max())
    new = _make(algorithm) | {"iat": now, "nbf": begins}
    _write(path, {"keys": [*jwks, new]}, 0o600)
    export(path)
    return new


def remove(path: str, kid: str) -> None:
    """Take a key out at once, and publish that: what it signed ends. Raises KeysError, also for the last one."""
    jwks = load(path)
    rest = [jwk for jwk in jwks if jwk["kid"] != kid]
    if len(rest) == len(jwks):
        raise KeysError(f"{path} holds no key {kid!r}.")
    signs = signer(rest, int(time.time()))
    if signs is None:
        raise KeysError(f"{kid} is the only key that signs: make a new one first.")
    # The one taken out may have been to follow these: the last has no end any more, one before it signs until then.
    to_sign = [jwk for jwk in rest if "d" in jwk and jwk.get("nbf", 0) >= signs.get("nbf", 0)]
    last = max(to_sign, key=lambda jwk: int(jwk.get("nbf", 0)))
    for jwk in to_sign:
        jwk["exp"] = last.get("nbf", 0) + conf.token_seconds_max()
    del last["exp"]
    _write(path, {"keys": rest}, 0o600)
    export(path)


def public_set(jwks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the public parts, for sidecars and anybody who verifies; keys past their end are left out."""
    now = int(time.time())
    living = [jwk for jwk in jwks if jwk.get("exp", now + 1) > now]
    return {"keys": [{name: jwk[name] for name in _PUBLIC if name in jwk} for jwk in living]}


def public_path(path: str) -> str:
    """Return where the public parts are kept beside the private ones: keys.public.json beside keys.json."""
    file = Path(path)
    return str(file.with_name(f"{file.stem}.public{file.suffix}"))


def export(path: str = "", to: str = "") -> str:
    """Write the public parts beside the private ones, or elsewhere, unless they stand there; the path. KeysError."""
    path = path or conf.token_keys()
    to = to or public_path(path)
    public = public_set(load(path))
    try:
        if json.loads(Path(to).read_text(encoding="utf-8")) == public:
            return to
    except (OSError, ValueError):
        pass
    _write(to, public, 0o644)
    return to


def _load(path: str) -> tuple[list[dict[str, Any]], dict[str, SigningKey]]:
    try:
        status = os.stat(path)
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        known = _read.get(path)
        if known is None or known[0] != stamp:
            known = _read[path] = (stamp, _parse(Path(path).read_bytes(), path), {})
    except FileNotFoundError:
        raise KeysError(f"{path} is not there: make it with `manage.py realtime_keys --new EdDSA`.") from None
    except OSError as error:
        raise KeysError(f"{path}: {error.strerror}") from None
    return [dict(jwk) for jwk in known[1]], known[2]


def _parse(data: bytes, path: str) -> list[dict[str, Any]]:
    try:
        # Every rule of the sidecar for such a set; whole, as a rotation writes the file anew.
        read_key_set(data, whole=True)
    except InvalidKeys as error:
        raise KeysError(f"{path}: {error}") from None
    jwks: list[dict[str, Any]] = json.loads(data)["keys"]
    for jwk in jwks:
        if not jwk.get("kid") or jwk.get("alg") not in ALGORITHMS:
            raise KeysError(f"{path}: each key needs a kid, and an alg of {', '.join(ALGORITHMS)}")
    return jwks


def _make(algorithm: str) -> dict[str, Any]:
    """Make a new key pair as a JWK."""
    jwk: dict[str, Any]
    if algorithm == "RS256":
        jwk = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, _RSA_BITS), as_dict=True)
    elif algorithm == "ES256":
        jwk = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True)
    elif algorithm == "EdDSA":
        jwk = OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate(), as_dict=True)
    else:
        raise KeysError(f"{algorithm!r} is none of {', '.join(ALGORITHMS)}")
    jwk.pop("key_ops", None)  # it says "sign", which the public part does not
    kid = time.strftime("%Y%m%d", time.gmtime()) + "-" + secrets.token_hex(4)
    return {"kid": kid, "alg": algorithm, "use": "sig"} | jwk


def _write(path: str, content: dict[str, Any], mode: int) -> None:
    """Whole or not at all; a file that is there keeps its owner and mode. Raises KeysError."""
    aside = f"{path}.{os.getpid()}"
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            if os.path.exists(path):
                status = os.stat(path)
                os.fchmod(file.fileno(), status.st_mode & 0o777)
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
        os.replace(aside, path)
    except OSError as error:
        raise KeysError(f"{path} cannot be written: {error.strerror}") from None
