"""What decides about rights: tokens and the keys that they are signed with."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys, read_key_set
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import SUBSCRIBE
from fastpath.core.protocol.errors import InvalidKeys, Refused
from tests.support.tokens import SECRET, mint, mint_jwt

from .targets import Target, check

NOW = 1_800_000_000_000
_PAYLOAD = b'{"aud":"fastpath","sub":"bob","uid":"5","groups":["3"],"gen":7,"iat":1,"exp":1900000000,"jti":"j"}'
_PERMITTED = b'{"sub":"bob","exp":1900000000.5,"nbf":1,"permissions":{"sub":["/a/*"],"pub":["/**"],"all":[]}}'
_RSA, _EC, _ED = generate_rsa(65537, 2048), generate_ec(SECP256R1()), Ed25519PrivateKey.generate()
KEY_SET = msgspec.json.encode(
    {
        "keys": [
            RSAAlgorithm.to_jwk(_RSA.public_key(), as_dict=True) | {"kid": "r"},
            ECAlgorithm.to_jwk(_EC.public_key(), as_dict=True) | {"kid": "e"},
            OKPAlgorithm.to_jwk(_ED.public_key(), as_dict=True) | {"kid": "d"},
        ]
    }
)
PEM = _RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def tokens(data: bytes) -> None:
    """A token is refused, or one of our keys has signed it by its own algorithm, and it has not ended.

    The first byte: 0, the token as it is; 1, a payload that is signed for us; 2, a header and, on the next line, a
    payload, signed with the secret; 3, the same, signed with the public key of RS256 as if it were a secret.
    """
    kind, rest = data[:1], data[1:]
    header, _, payload = rest.partition(b"\n")
    if kind == b"\x01":
        token = _signed(b'{"alg":"HS256","typ":"JWT"}', rest)
    elif kind in (b"\x02", b"\x03"):
        token = _signed(header, payload, SECRET.encode() if kind == b"\x02" else PEM)
    else:
        token = rest.decode("utf-8", "replace")
    named, _notes = read_key_set(KEY_SET)
    keys = Keys(SECRET, named)
    for grants in (RuleGrants(keys), JwtGrants(keys)):
        try:
            principal = grants.principal(token, NOW)
        except Refused:
            continue
        if not token:
            check(principal.claims is None, "nobody became somebody")
            continue
        check(kind != b"\x03", "accepted a signature by a public key")
        claims = principal.claims
        check(claims is not None and claims.key is not None, "accepted without a key")
        key = claims.key
        stated = msgspec.json.decode(_decoded(token.partition(".")[0]))
        check(stated["alg"] == key.algorithm, "accepted another algorithm than the key's")
        jwt.PyJWS().decode(token, key.material, algorithms=[key.algorithm])
        check(principal.expires is not None and principal.expires > NOW, "accepted what has ended")
        grants.check(principal, SUBSCRIBE, "/a/b", NOW)


def key_sets(data: bytes) -> None:
    """A set of keys is read, each with one algorithm, or refused with a reason."""
    try:
        keys, _notes = read_key_set(data)
    except InvalidKeys as error:
        check(str(error), "refused without a word")
        return
    for key in keys:
        check(key.algorithm in ("HS256", "RS256", "ES256", "EdDSA"), f"a key for {key.algorithm}")
    Keys(SECRET, keys)


def _signed(header: bytes, payload: bytes, secret: bytes = SECRET.encode()) -> str:
    text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    return (text + b"." + urlsafe_b64encode(hmac.digest(secret, text, hashlib.sha256)).rstrip(b"=")).decode()


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


TARGETS = {
    "tokens": Target(
        tokens,
        (
            b"\x00" + mint("bob").encode(),
            b"\x00" + mint_jwt("bob", ["/a/*"]).encode(),
            b"\x01" + _PAYLOAD,
            b"\x01" + _PERMITTED,
            b'\x02{"alg":"none"}\n' + _PAYLOAD,
            b'\x02{"alg":"HS256","kid":"1"}\n' + _PAYLOAD,
            b'\x02{"alg":"RS256","typ":"JWT","kid":"r"}\n' + _PERMITTED,
            b'\x03{"alg":"HS256","kid":"r"}\n' + _PERMITTED,
            b"\x00" + jwt.encode(msgspec.json.decode(_PAYLOAD), _ED, "EdDSA", {"kid": "d"}).encode(),
            b"\x00" + jwt.encode(msgspec.json.decode(_PAYLOAD), _EC, "ES256", {"kid": "e"}).encode(),
        ),
        (
            *(
                f'"{word}"'.encode()
                for word in ("alg", "none", "HS256", "RS256", "kid", "typ", "crit", "b64", "aud", "exp")
            ),
            *(
                f'"{word}"'.encode()
                for word in ("nbf", "iat", "sub", "gen", "groups", "permissions", "pub", "all", "sid")
            ),
            *(b"1e999", b"NaN", b"Infinity", b"-1", b"null", b"true", b"[[[[", b'"\\ud800"', b"9" * 400),
        ),
        2048,
    ),
    "keys": Target(
        key_sets,
        (
            KEY_SET,
            b'{"keys":[{"kty":"oct","k":"' + urlsafe_b64encode(bytes(32)) + b'","kid":"o","use":"sig","alg":"HS256"}]}',
        ),
        tuple(
            f'"{word}"'.encode()
            for word in (
                "kty",
                "oct",
                "RSA",
                "EC",
                "OKP",
                "crv",
                "P-256",
                "Ed25519",
                "n",
                "e",
                "x",
                "y",
                "k",
                "kid",
                "alg",
                "use",
                "sig",
                "key_ops",
            )
        ),
        2048,
    ),
}
