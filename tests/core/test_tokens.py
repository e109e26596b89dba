"""What the quick way accepts is what the library accepts, claim for claim, and every change of a byte is refused."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastpath.core.errors import Close, Refused
from fastpath.core.tokens import AUDIENCE, _any, _usual, verify
from tests.support.tokens import SECRET, mint

NOW = 1_700_000_000_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "aud": st.sampled_from([AUDIENCE, [AUDIENCE], "other", ["other"], None, 3]),
        "sub": st.just("ann") | JSON,
        "exp": st.just(NOW // 1000 + 60) | JSON,
        "jti": JSON,
        "nbf": JSON,
        "iss": st.text(),
        "uid": JSON,
        "groups": JSON,
        "permissions": JSON,
    },
)


def token_of(claims: dict[str, Any], header: str = '{"alg":"HS256","typ":"JWT"}') -> str:
    """Signed whatever it says; PyJWT itself would refuse to mint some."""
    parts = [urlsafe_b64encode(text.encode()).rstrip(b"=").decode() for text in (header, json.dumps(claims))]
    signature = jwt.get_algorithm_by_name("HS256").sign(".".join(parts).encode(), SECRET.encode())
    return ".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=").decode()])


def by_library(token: str, audience: str | None) -> dict[str, Any] | None:
    """The library's verdict."""
    try:
        return _any(token, SECRET, audience)
    except Refused:
        return None


@given(CLAIMS, st.sampled_from([AUDIENCE, None]))
@example({"aud": AUDIENCE, "sub": "ann", "exp": 1}, AUDIENCE)
def test_it_accepts_nothing_that_the_library_refuses(claims: dict[str, Any], audience: str | None) -> None:
    """And reads the same claims."""
    token = token_of(claims)
    quick = _usual(token, SECRET, audience)
    if quick is not None:
        assert quick == by_library(token, audience)


def test_the_usual_token_takes_the_quick_way() -> None:
    """What Django mints, and what an outside issuer does."""
    assert _usual(mint("ann", groups=["1"]), SECRET, AUDIENCE) == by_library(mint("ann", groups=["1"]), AUDIENCE)
    outside = jwt.encode({"sub": "ann", "exp": 9_999_999_999, "permissions": {"sub": ["/a/**"]}}, SECRET)
    assert _usual(outside, SECRET, None) == by_library(outside, None)


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    """Whatever character is put in place of another, unless it spells the same bytes; and no other secret will do."""
    token = mint("ann")
    index = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != token[index]))
    changed = token[:index] + other + token[index + 1 :]
    assert _usual(changed, SECRET, AUDIENCE) is None
    assert _usual(token, SECRET + "x", AUDIENCE) is None


@pytest.mark.parametrize(
    "header",
    ['{"alg":"none"}', '{"alg":"HS512","typ":"JWT"}', '{"alg":"HS256","crit":["x"],"typ":"JWT"}', "[]", "{"],
)
def test_another_header_is_not_taken(header: str) -> None:
    """Its verdict is the library's: a refusal."""
    token = token_of({"aud": AUDIENCE, "sub": "ann", "exp": NOW // 1000 + 60}, header)
    with pytest.raises(Refused) as caught:
        verify(token, SECRET, NOW)
    assert caught.value.code == Close.BAD_TOKEN


@pytest.mark.parametrize("token", ["", ".", "..", "...", "a.b.c", "é.é.é", "a" * 10_000, "\x00.\ud800."])
def test_what_is_no_token(token: str) -> None:
    """Refused with a reason, never an error of ours."""
    with pytest.raises(Refused):
        verify(token, SECRET, NOW)


def test_an_unsigned_part_cannot_be_smuggled_in() -> None:
    """The payload that is read is the one that is signed."""
    header, payload, signature = mint("ann").split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=="))
    forged = urlsafe_b64encode(json.dumps(claims | {"sub": "admin", "su": True}).encode()).rstrip(b"=").decode()
    for token in (f"{header}.{forged}.{signature}", f"{header}.{forged}.{payload}.{signature}"):
        with pytest.raises(Refused):
            verify(token, SECRET, NOW)
