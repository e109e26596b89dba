"""Keys by their names: what a set may hold, which key a token is checked by, and that no other algorithm is taken."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys, check_address, is_address, read_key_set
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.tokens import Claims, _usual, verify
from fastpath.core.protocol.errors import Close, InvalidKeys, Refused
from tests.support.tokens import SECRET

NOW = 1_700_000_000_000
PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "HS256": b"a secret with a name of its own, long enough",
}
READERS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def base64(data: bytes) -> str:
    """As JWTs have it."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def jwk(algorithm: str, kid: str = "", **more: Any) -> dict[str, Any]:
    """The public part of the key of that algorithm."""
    if algorithm == "HS256":
        found = {"kty": "oct", "k": base64(PRIVATE["HS256"])}
    else:
        found = READERS[algorithm].to_jwk(PRIVATE[algorithm].public_key(), as_dict=True)
    return found | ({"kid": kid} if kid else {}) | more


def key_set(*jwks: dict[str, Any]) -> bytes:
    """The file."""
    return json.dumps({"keys": jwks}).encode()


def keys(*jwks: dict[str, Any], secret: str = "") -> Keys:
    """What the server has of it."""
    return Keys(secret, read_key_set(key_set(*jwks))[0])


def sign(key: Any, algorithm: str, kid: str = "", **claims: Any) -> str:
    """A token."""
    content = {"aud": "fastpath", "sub": "ann", "exp": NOW // 1000 + 60} | claims
    return jwt.encode(content, key, algorithm, headers={"kid": kid} if kid else None)


def refusal(token: str, having: Keys) -> Refused:
    """Why it is not taken."""
    with pytest.raises(Refused) as caught:
        verify(token, having, NOW)
    return caught.value


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_a_token_is_checked_by_the_key_that_it_names(algorithm: str) -> None:
    """By each algorithm; with the name of another key it is refused, and without a name."""
    having = keys(*(jwk(each, f"key {each}") for each in PRIVATE), secret=SECRET)
    assert verify(sign(PRIVATE[algorithm], algorithm, f"key {algorithm}"), having, NOW).user == "ann"
    for other in {*PRIVATE} - {algorithm}:
        assert refusal(sign(PRIVATE[algorithm], algorithm, f"key {other}"), having).code == Close.BAD_TOKEN
    assert refusal(sign(PRIVATE[algorithm], algorithm), having).code == Close.BAD_TOKEN
    assert verify(sign(SECRET, "HS256"), having, NOW).user == "ann", "the secret has no name"


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_keys_without_names_are_all_tried(algorithm: str) -> None:
    """As an issuer with one key has it; a name that is not known is no name."""
    having = keys(*(jwk(each) for each in PRIVATE), secret=SECRET)
    for kid in ("", "unheard of"):
        assert verify(sign(PRIVATE[algorithm], algorithm, kid), having, NOW).user == "ann"
    assert verify(sign(SECRET, "HS256"), having, NOW).user == "ann"


def forged(header: dict[str, Any], secret: bytes = b"") -> str:
    """Signed by HMAC whatever the header says, or not at all."""
    parts = [base64(json.dumps(one).encode()) for one in (header, {"aud": "fastpath", "sub": "ann", "exp": NOW})]
    sign_it = jwt.get_algorithm_by_name("HS256").sign
    return ".".join([*parts, base64(sign_it(".".join(parts).encode(), secret)) if secret else ""])


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("kid", ["", "k1"])
def test_a_public_key_is_no_secret(algorithm: str, kid: str) -> None:
    """RFC 8725 §2.1: what everybody may know, taken for the secret of HS256."""
    having = keys(jwk(algorithm, kid))
    public = PRIVATE[algorithm].public_key()
    spellings = [public.public_bytes(form, PublicFormat.SubjectPublicKeyInfo) for form in (Encoding.PEM, Encoding.DER)]
    spellings += [json.dumps(jwk(algorithm, kid)).encode()]
    for secret in spellings:
        for alg in ("HS256", algorithm):
            assert refusal(forged({"alg": alg, "typ": "JWT", "kid": kid}, secret), having).code == Close.BAD_TOKEN


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", "HS384", "HS512", "RS512", "PS256", "ES384", None, 5, []])
@pytest.mark.parametrize("signature", [b"", SECRET.encode()])
def test_an_algorithm_is_the_keys_to_say(alg: Any, signature: bytes) -> None:
    """Above all not ``none``."""
    having = keys(*(jwk(each, each) for each in PRIVATE), secret=SECRET)
    for kid in ("", "HS256", "RS256"):
        assert refusal(forged({"alg": alg, "typ": "JWT", "kid": kid}, signature), having).code == Close.BAD_TOKEN


def test_a_key_that_is_not_known_is_a_reason_to_come_again() -> None:
    """It has been taken out of use, or has not arrived here: 4007, and not 4501 after which nobody comes again."""
    token = sign(PRIVATE["RS256"], "RS256", "new")
    assert refusal(token, keys(jwk("RS256", "old"))).code == Close.TOKEN_EXPIRED
    assert refusal(token, Keys(SECRET)).code == Close.TOKEN_EXPIRED
    assert refusal(sign(PRIVATE["RS256"], "RS256"), Keys(SECRET)).code == Close.BAD_TOKEN


def test_a_named_secret_takes_the_quick_way() -> None:
    """With its name, and with an id of the token."""
    having = keys(jwk("HS256", "k1"), jwk("HS256", "schlüssel"), secret=SECRET)
    for token in (sign(PRIVATE["HS256"], "HS256", "k1", jti="x"), sign(SECRET, "HS256", jti="x")):
        quick = _usual(token, having)
        assert quick is not None
        assert quick[0]["jti"] == "x"
    assert _usual(sign(SECRET, "HS256", jti=5), having) is None
    assert _usual(sign(SECRET, "HS256", "k1"), having) is None
    assert verify(sign(PRIVATE["HS256"], "HS256", "schlüssel"), having, NOW).user == "ann"


WEAK = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to see it refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JWK set"),
        (b'{"keys": {}}', "no JWK set"),
        (b'{"keys": [1]}', "no JWK set"),
        (b'{"keys": []}', "no key that can be used"),
        (key_set(*[{}] * 33), "32 is the most"),
        (key_set(jwk("RS256", "a"), jwk("EdDSA", "a")), "another key has this kid"),
        (key_set(jwk("RS256", kid=5)), "kid is a text"),
        (key_set(jwk("RS256", "k" * 129)), "kid is a text"),
        (key_set({"kty": "oct", "k": base64(b"short")}), "32 bytes or more"),
        (key_set({"kty": "oct"}), "k are needed"),
        (key_set(jwk("RS256", n=5)), "n, e are needed"),
        (key_set(jwk("ES256", x="AAAA")), "key 1: "),
        (key_set(jwk("EdDSA", x="AAAA")), "key 1: "),
        (key_set(RSAAlgorithm.to_jwk(WEAK.public_key(), as_dict=True)), "2048 bits or more"),
        (key_set(jwk("RS256", alg="PS256")), "alg 'PS256'"),
        (key_set({"kty": "EC", "crv": "P-384"}), "P-384"),
        (key_set({"kty": ["RSA"]}), "kty"),
        (key_set({"kty": "EC", "crv": {}}), "kty"),
    ],
)
def test_a_broken_set_says_what_is_wrong(data: bytes, reason: str) -> None:
    """And none of it is taken."""
    with pytest.raises(InvalidKeys, match=reason):
        read_key_set(data)


def test_keys_for_other_purposes_are_left_out_and_told() -> None:
    """RFC 7517 §5: an issuer's file may hold more than is understood."""
    private = RSAAlgorithm.to_jwk(PRIVATE["RS256"], as_dict=True)
    found, notes = read_key_set(
        key_set(
            jwk("RS256", "sealed", use="enc"),
            jwk("RS256", "wraps", key_ops=["wrapKey"]),
            {"kty": "EC", "crv": "P-521", "kid": "large"},
            jwk("ES256", "good", use="sig", alg="ES256", key_ops=["verify"], x5t="…"),
            private | {"kid": "signs"},
        )
    )
    assert [key.kid for key in found] == ["good", "signs"]
    assert isinstance(found[1].material, rsa.RSAPublicKey), "the private part is not kept"
    assert [note.split(" ")[2] for note in notes] == ["('sealed')", "('wraps')", "('large')", "('signs')"]


BROKEN = {
    "no key": 1,
    "a number for a name": jwk("RS256", kid=5),
    "no point of its curve": jwk("ES256", "broken", x="AAAA"),
    "no modulus": jwk("RS256", "broken", n=None),
    "a short secret": {"kty": "oct", "k": base64(b"short"), "kid": "broken"},
}


@pytest.mark.parametrize("bad", BROKEN.values(), ids=BROKEN)
def test_one_broken_key_keeps_no_other_from_counting(bad: Any) -> None:
    """Also not a key that was taken out from ending: it is left out and told, in front of good ones or behind them."""
    data = json.dumps({"keys": [jwk("RS256", "a"), bad, jwk("EdDSA", "b")]}).encode()
    found, notes = read_key_set(data)
    assert [key.kid for key in found] == ["a", "b"]
    assert len(notes) == 1
    assert "key 2" in notes[0]
    having = keys(jwk("RS256", "a"), jwk("ES256", "stolen"))
    assert having.replace(found), "the one that is not there any more has ended"
    with pytest.raises(InvalidKeys, match="key 2"):
        read_key_set(data, whole=True)


def test_of_two_keys_with_one_name_neither_counts() -> None:
    found, notes = read_key_set(key_set(jwk("RS256", "a"), jwk("EdDSA", "a"), jwk("ES256", "b")))
    assert [key.kid for key in found] == ["b"]
    assert len(notes) == 2


def test_another_set_takes_the_place_of_the_first() -> None:
    """A key that is still there is the same one; what a key signed that is gone counts no more."""
    having = keys(jwk("RS256", "a"), jwk("EdDSA", "b"), secret=SECRET)
    by = {
        "a": verify(sign(PRIVATE["RS256"], "RS256", "a"), having, NOW),
        "b": verify(sign(PRIVATE["EdDSA"], "EdDSA", "b"), having, NOW),
        "": verify(sign(SECRET, "HS256"), having, NOW),
    }

    def counting() -> set[str]:
        return {kid for kid, claims in by.items() if having.counts(claims.key)}

    assert counting() == {"a", "b", ""}
    assert not having.replace(read_key_set(key_set(jwk("EdDSA", "b"), jwk("RS256", "a"), jwk("ES256", "c")))[0])
    assert counting() == {"a", "b", ""}
    assert having.replace(read_key_set(key_set(jwk("EdDSA", "b")))[0])
    assert counting() == {"b", ""}
    other = OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key(), as_dict=True)
    assert having.replace(read_key_set(key_set(other | {"kid": "b"}))[0]), "another key of the same name"
    assert counting() == {""}


@pytest.mark.parametrize("kind", [RuleGrants, JwtGrants])
def test_who_came_with_a_key_that_is_gone_has_no_rights_any_more(kind: Any) -> None:
    """In both modes, wherever the principal is looked at again."""
    having = keys(jwk("RS256", "a"), secret=SECRET)
    grants = kind(having)
    gone = grants.principal(sign(PRIVATE["RS256"], "RS256", "a"), NOW)
    stays = grants.principal(sign(SECRET, "HS256"), NOW)
    having.replace([])
    grants.keys_changed()
    for look in (grants.current, grants.refreshed):
        assert look(stays).user == "ann"
        with pytest.raises(Refused) as caught:
            look(gone)
        assert caught.value.code == Close.TOKEN_EXPIRED


def test_claims_without_a_token_need_no_key() -> None:
    """Such as those of tests, and of a mode that has none."""
    assert keys(jwk("RS256")).counts(Claims("ann", NOW).key)


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["RSA", "EC", "oct", "AQAB", "="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
MEMBERS = ["kty", "crv", "n", "e", "x", "y", "k", "kid", "alg", "use", "key_ops", "d"]


@given(st.sampled_from([*PRIVATE]), st.dictionaries(st.sampled_from(MEMBERS), ANY, max_size=3))
def test_whatever_a_set_holds_is_read_or_refused(algorithm: str, changes: dict[str, Any]) -> None:
    """With a sentence, and never with an error of ours or of the library's."""
    try:
        found, _ = read_key_set(json.dumps({"keys": [jwk(algorithm, "k1") | changes]}).encode())
    except InvalidKeys as error:
        assert str(error)
    else:
        for key in found:
            refused = Keys("", [key])
            assert refusal(sign("s" * 32, "HS256", key.kid), refused).code in (Close.BAD_TOKEN, Close.TOKEN_EXPIRED)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://id.example.com/keys", ""),
        ("https://id.example.com:8443/realms/a/certs?x=1", ""),
        ("http://localhost:8000/keys", ""),
        ("http://127.0.0.1/keys", ""),
        ("http://[::1]:8000/keys", ""),
        ("http://id.example.com/keys", "this machine alone"),
        ("http://127.0.0.1.example.com/keys", "this machine alone"),
        ("http://10.0.0.1/keys", "this machine alone"),
        ("https://ann:secret@id.example.com/keys", "no user"),
        ("https:///keys", "neither"),
        ("file:///etc/keys.json", "neither"),
        ("ftp://id.example.com/keys", "neither"),
        ("https://id.example.com:port/keys", "ort"),
        ("https://[id/keys", "IPv6"),
    ],
)
def test_addresses(address: str, why: str) -> None:
    assert is_address(address)
    found = check_address(address)
    assert why in found if why else found == ""


def test_a_path_is_none() -> None:
    assert not any(map(is_address, ("", "keys.json", "/etc/keys.json", "c:keys")))


def test_a_secret_in_a_set_that_anybody_can_read_is_left_out() -> None:
    secret = {"kty": "oct", "kid": "open", "k": "c2VjcmV0IHRoYXQgYW55Ym9keSBjYW4gcmVhZCwgMzIgYnl0ZXM"}
    data = json.dumps({"keys": [secret]}).encode()
    assert [key.kid for key in read_key_set(data)[0]] == ["open"]
    with pytest.raises(InvalidKeys, match="anybody can read"):
        read_key_set(data, public=True)
