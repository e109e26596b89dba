"""The keys that tokens are signed with: a secret, or a JWK set (RFC 7517); each key has the one algorithm it is for.

Which algorithm a signature is checked by is the key's to say, never the token's (RFC 8725 §3.1): a token that names
another one, or none, finds no key.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from itertools import permutations
from typing import Any
from urllib.parse import urlsplit

import msgspec
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

from ..protocol.errors import InvalidKeys

HS256 = "HS256"
KEYS_MAX = 32
"""Keys in one set: a rotation needs two or three, and a token without ``kid`` is tried with all that have none."""

SECRET_BYTES_MIN = 32
"""RFC 7518 §3.2: a key of the size of the hash, or larger."""

RSA_BITS_MIN = 2048
"""RFC 7518 §3.3."""

KID_CHARS_MAX = 128

_FAMILIES: dict[tuple[str, str], tuple[str, Any, tuple[str, ...]]] = {
    ("oct", ""): (HS256, HMACAlgorithm, ("k",)),
    ("RSA", ""): ("RS256", RSAAlgorithm, ("n", "e")),
    ("EC", "P-256"): ("ES256", ECAlgorithm, ("crv", "x", "y")),
    ("OKP", "Ed25519"): ("EdDSA", OKPAlgorithm, ("crv", "x")),
}
"""Kinds of keys by ``kty`` and ``crv``: the algorithm, who reads the key, and the members of its public part."""


class Key(msgspec.Struct, frozen=True, gc=False):
    """A key; ``kid`` is empty for one without a name."""

    kid: str
    algorithm: str
    material: Any
    """The secret's bytes, or the public key."""
    members: str
    """Members that the key was made of: the same key read again is the same."""


class Keys:
    """The keys that count at the moment, the secret always among them."""

    def __init__(self, secret: str = "", named: Sequence[Key] = ()) -> None:
        data = secret.encode()
        self._secret = [Key("", HS256, data, "secret")] if data else []
        self.missed = 0
        """Tokens so far that named a key which was not there."""
        self.replace(named)

    def replace(self, found: Sequence[Key]) -> bool:
        """Put another set in the place of the one read before; whether a key does not count any more."""
        before: list[Key] = getattr(self, "_all", [])
        known = {(key.kid, key.algorithm, key.members): key for key in before}
        self._all = self._secret + [known.get((key.kid, key.algorithm, key.members), key) for key in found]
        self._named = {key.kid: key for key in self._all if key.kid}
        self._unnamed = [key for key in self._all if not key.kid]
        self._counting = {id(key) for key in self._all}
        self.usual = {header: key for key in self._all if key.algorithm == HS256 for header in _spellings(key.kid)}
        if len(self._unnamed) > 1:  # which of them it is has to be tried
            for header in _spellings(""):
                self.usual.pop(header, None)
        return any(id(key) not in self._counting for key in before)

    @property
    def all(self) -> Sequence[Key]:
        """The keys that count."""
        return self._all

    def counts(self, key: Key | None) -> bool:
        """Return whether what this key signed still counts; None, of claims that no token brought, does."""
        return key is None or id(key) in self._counting

    @property
    def empty(self) -> bool:
        """True while there is no key: those of an address have not come yet."""
        return not self._all

    def miss(self, kid: str) -> bool:
        """Return whether no key has this name, and count that."""
        missed = kid not in self._named
        self.missed += missed
        return missed

    def candidates(self, kid: str, algorithm: str) -> list[Key]:
        """Return the keys to try a token with: the one of its ``kid``, else those without a name; of its algorithm
        only."""
        named = self._named.get(kid)
        return [key for key in ([named] if named else self._unnamed) if key.algorithm == algorithm]


def is_address(text: str) -> bool:
    """Return whether keys are named by an address, and not by the path of a file."""
    return "://" in text


def check_address(address: str) -> str:
    """Return why keys are not fetched from there, or an empty text.

    Who could change a set under way could sign for anybody: it comes by TLS, or does not leave this machine.
    """
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("https", "http") or not host:
        return "it is neither the path of a file nor https://HOST/PATH"
    if parts.username is not None or parts.password is not None:
        return "a JWK set is public: the address has no user and no password"
    if parts.scheme == "http" and not _is_loopback(host):
        return "http:// is for this machine alone (localhost, 127.0.0.1): https://, or whoever is between could sign"
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def read_key_set(data: bytes, *, public: bool = False, whole: bool = False) -> tuple[list[Key], list[str]]:
    """Return the keys of a JWK set, and a sentence for each that is not used, or not as it should be; raise
    InvalidKeys.

    A key for another purpose or of another kind is left out (RFC 7517 §5), and so is one that is broken or weak, unless
    the set is to be ``whole``: else one such key would keep a new one from counting, and a stolen one from ending. In a
    set that anybody can read (``public``) secrets are left out as well: whoever has read one could sign.
    """
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidKeys(f"it is no JSON: {error}") from None
    given = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(given, list) or (given and not any(isinstance(jwk, dict) for jwk in given)):
        raise InvalidKeys('it is no JWK set: {"keys": [{"kty": …}, …]}')
    if len(given) > KEYS_MAX:
        raise InvalidKeys(f"it holds {len(given)} keys; {KEYS_MAX} is the most")
    found: list[Key] = []
    notes: list[str] = []
    for number, jwk in enumerate(given, 1):
        try:
            kid, name = _name(jwk, number)
            if reason := _other_purpose(jwk) or (public and jwk.get("kty") == "oct" and _OPEN_TO_ALL):
                notes.append(f"{name} is not used: {reason}")
                continue
            if kid and _count(given, kid) > 1:  # nobody knows which of them is meant
                raise InvalidKeys(f"{name}: another key has this kid")
            found.append(_read_key(jwk, kid, name))
        except InvalidKeys as error:
            if whole:
                raise
            notes.append(f"{error}; it is left out")
            continue
        if "d" in jwk:
            notes.append(f"{name} comes with its private part, which is for whoever signs: give the public one here")
    if not found:
        raise InvalidKeys("; ".join(["it holds no key that can be used", *notes]))
    return found, notes


def _name(jwk: Any, number: int) -> tuple[str, str]:
    """Return the ``kid`` of a key, empty for none, and what the key is called; raise InvalidKeys."""
    kid = jwk.get("kid", "") if isinstance(jwk, dict) else None
    if not isinstance(kid, str) or len(kid) > KID_CHARS_MAX:
        raise InvalidKeys(f"key {number}: kid is a text of at most {KID_CHARS_MAX} characters")
    return kid, f"key {number}" + (f" ({kid!r})" if kid else "")


def _count(given: list[Any], kid: str) -> int:
    """Return how many keys, of those that could be used, have this ``kid``."""
    return sum(isinstance(jwk, dict) and jwk.get("kid") == kid and not _other_purpose(jwk) for jwk in given)


def _family(jwk: dict[str, Any]) -> tuple[str, Any, tuple[str, ...]] | None:
    kty, crv = jwk.get("kty"), jwk.get("crv", "") if jwk.get("kty") in ("EC", "OKP") else ""
    return _FAMILIES.get((kty, crv)) if isinstance(kty, str) and isinstance(crv, str) else None


def _other_purpose(jwk: dict[str, Any]) -> str:
    """Return why the key is none of ours, or an empty text."""
    family = _family(jwk)
    if family is None:
        return f"kty {jwk.get('kty')!r} with crv {jwk.get('crv')!r}; " + _USABLE
    if jwk.get("alg", family[0]) != family[0]:
        return f"alg {jwk['alg']!r}; " + _USABLE
    if jwk.get("use", "sig") != "sig":
        return f"use {jwk['use']!r} is not to sign"
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or not {"verify", "sign"}.intersection(map(str, operations)):
        return f"key_ops {operations!r} does not verify"
    return ""


_OPEN_TO_ALL = "it is a secret, and anybody can read this set"
_USABLE = "usable are HS256 (oct), RS256 (RSA), ES256 (EC P-256) and EdDSA (OKP Ed25519)"


def _read_key(jwk: dict[str, Any], kid: str, name: str) -> Key:
    family = _family(jwk)
    assert family is not None
    algorithm, reader, needed = family
    members = {one: jwk.get(one) for one in needed}
    if not all(isinstance(value, str) for value in members.values()):
        raise InvalidKeys(f"{name}: {', '.join(needed)} are needed, as texts")
    try:
        material = reader.from_jwk(members | {"kty": jwk["kty"]})
    except (InvalidKeyError, ValueError, TypeError) as error:
        raise InvalidKeys(f"{name}: {error}") from None
    if algorithm == HS256 and len(material) < SECRET_BYTES_MIN:
        raise InvalidKeys(f"{name}: a secret has {SECRET_BYTES_MIN} bytes or more")
    if algorithm == "RS256" and material.key_size < RSA_BITS_MIN:
        raise InvalidKeys(f"{name}: an RSA key has {RSA_BITS_MIN} bits or more")
    return Key(kid, algorithm, material, json.dumps(members, sort_keys=True))


def _spellings(kid: str) -> Iterable[str]:
    """Yield the headers of HS256 tokens as issuers write them: without blanks, in any order."""
    parts = {"alg": HS256, "typ": "JWT"} | ({"kid": kid} if kid else {})
    for names in (tuple(parts), tuple(name for name in parts if name != "typ")):
        for order in permutations(names):
            text = json.dumps({name: parts[name] for name in order}, separators=(",", ":"), ensure_ascii=False)
            yield urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
