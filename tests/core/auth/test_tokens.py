"""What the quick way accepts is what the library accepts, claim for claim, and every change of a byte is refused."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastpath.core.auth.basic_grants import BasicGrants
from fastpath.core.auth.jwt_grants import JwtGrants
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.rule_grants import RuleGrants
from fastpath.core.auth.rules import PUBLISH, SUBSCRIBE
from fastpath.core.auth.tokens import AUDIENCE, PERMISSIONS_MAX, TOKEN_CHARS_MAX, ClaimMap, _usual, verify
from fastpath.core.protocol.errors import Close, Refused
from fastpath.core.protocol.messages import Connect, Connected
from tests.support.core.stage import START, Stage
from tests.support.tokens import SECRET, mint

NOW = 1_700_000_000_000
KEYS = Keys(SECRET)
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


def by_library(token: str, audience: str | None = None) -> dict[str, Any] | None:
    """The library's verdict, but for the time."""
    times = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    options: Any = times | {"verify_aud": audience is not None, "require": ["exp"]}
    try:
        return jwt.decode(token, SECRET, ["HS256"], options, audience=audience)
    except jwt.InvalidTokenError:
        return None


@given(CLAIMS)
@example({"aud": AUDIENCE, "sub": "ann", "exp": 1, "jti": "x"})
def test_it_accepts_nothing_that_the_library_refuses(claims: dict[str, Any]) -> None:
    """And reads the same claims."""
    token = token_of(claims)
    quick = _usual(token, KEYS)
    if quick is not None:
        assert quick[0] == by_library(token)


@given(CLAIMS)
@example({"aud": AUDIENCE, "sub": "ann", "exp": NOW // 1000 + 60})
@example({"aud": [AUDIENCE], "sub": "ann", "exp": NOW // 1000 + 60})
def test_whom_it_is_meant_for_is_judged_as_the_library_does(claims: dict[str, Any]) -> None:
    """All that is accepted the library accepts for this audience."""
    token = token_of(claims)
    try:
        verify(token, KEYS, NOW)
    except Refused:
        return
    assert by_library(token, AUDIENCE) is not None


def test_the_usual_token_takes_the_quick_way() -> None:
    """What Django mints, and what an outside issuer does."""
    outside = jwt.encode({"sub": "ann", "exp": 9_999_999_999, "permissions": {"sub": ["/a/**"]}}, SECRET)
    for token in (mint("ann", groups=["1"]), outside):
        quick = _usual(token, KEYS)
        assert quick is not None
        assert quick[0] == by_library(token)


@given(st.data())
def test_a_changed_token_is_refused(data: st.DataObject) -> None:
    """Whatever character is put in place of another, unless it spells the same bytes; and no other secret will do."""
    token = mint("ann")
    index = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != token[index]))
    changed = token[:index] + other + token[index + 1 :]
    assert _usual(changed, KEYS) is None
    assert _usual(token, Keys(SECRET + "x")) is None


@pytest.mark.parametrize(
    "header",
    ['{"alg":"none"}', '{"alg":"HS512","typ":"JWT"}', '{"alg":"HS256","crit":["x"],"typ":"JWT"}', "[]", "{"],
)
def test_another_header_is_not_taken(header: str) -> None:
    """Its verdict is the library's: a refusal."""
    token = token_of({"aud": AUDIENCE, "sub": "ann", "exp": NOW // 1000 + 60}, header)
    with pytest.raises(Refused) as caught:
        verify(token, KEYS, NOW)
    assert caught.value.code == Close.BAD_TOKEN


@pytest.mark.parametrize(
    "token", ["", ".", "..", "...", "a.b.c", "é.é.é", "a" * 10_000, "\x00.\ud800.", "a" * (TOKEN_CHARS_MAX + 1)]
)
def test_what_is_no_token(token: str) -> None:
    """Refused with a reason, never an error of ours."""
    with pytest.raises(Refused):
        verify(token, KEYS, NOW)


def test_an_unsigned_part_cannot_be_smuggled_in() -> None:
    """The payload that is read is the one that is signed."""
    header, payload, signature = mint("ann").split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=="))
    forged = urlsafe_b64encode(json.dumps(claims | {"sub": "admin", "su": True}).encode()).rstrip(b"=").decode()
    for token in (f"{header}.{forged}.{signature}", f"{header}.{forged}.{payload}.{signature}"):
        with pytest.raises(Refused):
            verify(token, KEYS, NOW)


def test_a_header_that_nests_without_end_is_refused() -> None:
    """Parsing it must end in a refusal, however deep it is."""
    for header in ('{"alg":"HS256","x":' + "[" * 2900, '{"alg":"HS256","x":' + "[" * 1400 + "]" * 1400 + "}"):
        with pytest.raises(Refused):
            verify(token_of({"aud": AUDIENCE, "sub": "ann", "exp": NOW // 1000 + 60}, header), KEYS, NOW)


# Mode jwt


def outside(**claims: Any) -> str:
    """A token of an outside issuer."""
    return token_of({"sub": "ann", "exp": NOW // 1000 + 60} | claims)


def refused(grants: JwtGrants, token: str) -> Close:
    """With which code."""
    with pytest.raises(Refused) as caught:
        grants.principal(token, NOW)
    return caught.value.code


@pytest.mark.parametrize(
    ("asked", "taken", "not_taken"),
    [
        ("", [None, AUDIENCE, [AUDIENCE, "other"]], ["other", ["other"], [], 5, ""]),
        ("market", ["market", ["other", "market"]], [None, AUDIENCE, "other", "marketplace"]),
    ],
)
def test_the_audience(asked: str, taken: list[Any], not_taken: list[Any]) -> None:
    """A token that is meant for others is never taken (RFC 7519 4.1.3)."""
    grants = JwtGrants(SECRET, asked)
    for aud in taken:
        assert grants.principal(outside(**({} if aud is None else {"aud": aud})), NOW).user == "ann"
    for aud in not_taken:
        assert refused(grants, outside(**({} if aud is None else {"aud": aud}))) == Close.BAD_TOKEN


def test_the_issuer() -> None:
    """Asked for when it is set."""
    grants = JwtGrants(SECRET, issuer="https://id.example.com")
    assert grants.principal(outside(iss="https://id.example.com"), NOW).user == "ann"
    for claims in ({}, {"iss": "https://id.example.com/"}, {"iss": ["https://id.example.com"]}):
        assert refused(grants, outside(**claims)) == Close.BAD_TOKEN
    assert JwtGrants(SECRET).principal(outside(iss="anybody"), NOW).user == "ann"


def test_a_token_that_is_not_valid_yet() -> None:
    """It is taken within the leeway, as the issuer's clock is ahead; else its bearer comes again, and it is not bad."""
    second = NOW // 1000
    for ahead in (0, 3, 9.999, 10):
        assert JwtGrants(SECRET).principal(outside(nbf=second + ahead), NOW).user == "ann"
    for ahead in (10.001, 60, 86_400):
        assert refused(JwtGrants(SECRET), outside(nbf=second + ahead)) == Close.NOT_READY
    far = JwtGrants(SECRET, leeway_ms=60_000)
    assert far.principal(outside(nbf=second + 60), NOW).user == "ann"
    assert refused(far, outside(nbf=second + 61)) == Close.NOT_READY
    assert refused(far, outside(exp=second)) == Close.TOKEN_EXPIRED, "the leeway is of the beginning alone"
    with pytest.raises(Refused, match="the token is not valid yet: by this server's clock in 60 s; come again"):
        verify(outside(nbf=second + 60), KEYS, NOW, audience_optional=True)
    own = {"sub": "ann", "uid": "1", "aud": AUDIENCE, "exp": second + 60}
    assert refused(RuleGrants(SECRET, 0), token_of(own | {"nbf": second + 1})) == Close.NOT_READY
    assert refused(RuleGrants(SECRET), token_of(own | {"nbf": second + 11})) == Close.NOT_READY


def test_the_times_without_leeway() -> None:
    """``exp`` is the first moment at which it is not valid any more, ``nbf`` the first at which it is."""
    grants, second = JwtGrants(SECRET, leeway_ms=0), NOW // 1000
    assert grants.principal(outside(exp=second + 0.001, nbf=second), NOW).expires == NOW + 1
    assert refused(grants, outside(exp=second)) == Close.TOKEN_EXPIRED
    assert refused(grants, outside(nbf=second + 0.001)) == Close.NOT_READY
    for claims in ({"nbf": float("nan")}, {"exp": float("nan")}, {"exp": float("inf")}, {"exp": None}, {"nbf": "soon"}):
        assert refused(grants, outside(**claims)) == Close.BAD_TOKEN
    without_end = token_of({"sub": "ann"})
    assert refused(grants, without_end) == Close.BAD_TOKEN


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_numbers_that_nobody_can_be_told(form: str) -> None:
    """A time beyond 2^53 ms is none; the one just before is, and ``iat`` says nothing."""
    far = float((1 << 53) / 1000)
    for claims in ({"exp": far}, {"exp": 10**20}, {"exp": 1e300}, {"exp": 10**400}, {"nbf": 1e300}, {"nbf": 10**400}):
        with pytest.raises(Refused) as caught:
            JwtGrants(SECRET).principal(outside(**claims), NOW)
        assert caught.value.code == Close.BAD_TOKEN, claims
    for gen in (1 << 53, 10**30, 1e300, -(1 << 53)):
        assert refused(JwtGrants(SECRET), outside(gen=gen)) == Close.BAD_TOKEN
    stage = Stage(grants=JwtGrants(SECRET))
    for number, claims in enumerate(({"exp": far - 1}, {"iat": 1e300}, {"iat": 10**400}, {"nbf": -1e300})):
        ann = stage.enter(f"c{number}", outside(**({"exp": START // 1000 + 600} | claims)), form)
        ann.say(Connect(id=1))
        [connected] = ann.taken()
        assert (type(connected), ann.closed) == (Connected, None)


def test_permissions() -> None:
    """``sub`` to read, ``pub`` to publish, ``all`` for both; what is no pattern allows nothing."""
    grants = JwtGrants(SECRET)
    given = {"sub": ["/s/*", "/in/{username}", "no pattern"], "pub": ["/p/**"], "all": ["/both/x"], "other": 5}
    ann = grants.principal(outside(permissions=given), NOW)
    may = {
        (action, subject)
        for action in (SUBSCRIBE, PUBLISH)
        for subject in ("/s/1", "/s/1/2", "/in/ann", "/in/bob", "/p/1/2", "/both/x", "/both/y")
        if not grants.check(ann, action, subject, NOW)
    }
    assert may == {
        *((SUBSCRIBE, subject) for subject in ("/s/1", "/in/ann", "/both/x")),
        *((PUBLISH, subject) for subject in ("/p/1/2", "/both/x")),
    }
    bob = grants.principal(outside(sub="bob", permissions=given), NOW)
    assert not grants.check(bob, SUBSCRIBE, "/in/bob", NOW), "the same permissions of another user"
    assert grants.check(grants.principal(outside(), NOW), SUBSCRIBE, "/s/1", NOW)
    assert grants.check(grants.principal("", NOW), SUBSCRIBE, "/s/1", NOW) == "a token is needed"


@pytest.mark.parametrize(
    "permissions", ["/s/*", ["/s/*"], {"sub": "/s/*"}, {"pub": {"/s/*": 1}}, {"all": ["/a/b"] * (PERMISSIONS_MAX + 1)}]
)
def test_permissions_that_are_malformed(permissions: Any) -> None:
    """Are not half understood."""
    assert refused(JwtGrants(SECRET), outside(permissions=permissions)) == Close.BAD_TOKEN


# Mode basic


def mapped(claims: dict[str, Any], **claim_map: Any) -> Any:
    """The claims of an outside issuer's token, in words of one's own."""
    token = token_of({"sub": "u1", "exp": NOW // 1000 + 60} | claims)
    return JwtGrants(KEYS, claim_map=ClaimMap(**claim_map)).principal(token, NOW).claims


def test_which_claims_are_the_user_and_the_groups() -> None:
    """Also inside of others; a name that is an address is one claim."""
    claims = {
        "preferred_username": "ann",
        "realm_access": {"roles": ["desk", 7, None, {"x": 1}, True]},
        "https://id.example.com/name": "bob",
        "org": {"unit": {"name": "night"}},
    }
    plain = mapped(claims | {"groups": ["a", "b"]})
    assert (plain.user, plain.groups) == ("u1", ("a", "b"))
    found = mapped(claims, user="preferred_username", groups="realm_access.roles")
    assert (found.user, found.groups) == ("ann", ("desk", "7"))
    found = mapped(claims, user="https://id.example.com/name", groups="org.unit.name")
    assert (found.user, found.groups) == ("bob", ("night",))
    assert mapped(claims, groups="org.no.name").groups == ()


@pytest.mark.parametrize("user", ["email", "org", "realm_access.roles", "org.unit.name.first", "empty", "on"])
def test_a_token_that_names_no_user_is_refused(user: str) -> None:
    """Nor is any other claim taken in its place."""
    with pytest.raises(Refused) as caught:
        mapped({"org": {"unit": "x"}, "realm_access": {"roles": ["a", "b"]}, "empty": "", "on": True}, user=user)
    assert caught.value.code == Close.BAD_TOKEN


@pytest.mark.parametrize(
    ("pattern", "becomes"),
    [
        ("/t/{tenant}/**", ["/t/acme/**"]),
        ("/t/{org.id}", ["/t/7"]),
        ("/d/{group}/*", ["/d/desk/*", "/d/night/*"]),
        ("/{tenant}/{group}", ["/acme/desk", "/acme/night"]),
        ("/t/{username}/{user_id}", ["/t/{username}/{user_id}"]),
        ("/t/{nobody}", []),
        ("/t/{org}", []),
        ("/t/{flag}", []),
        ("/t/{wild}/x", []),
        ("/t/{deep}/x", []),
        ("/t/{brace}/x", []),
        ("/t/{part}/x", []),
        ("/t/{blank}/x", []),
        ("/{first}/x", ["/plain/x"]),
        ("/a/{first}", ["/a/user", "/a/__sys__", "/a/plain"]),
        ("/user/{tenant}/x", []),
        ("/user/{group}/x", []),
        ("/user/bob/{tenant}", ["/user/bob/acme"]),
    ],
)
def test_any_claim_may_stand_in_a_pattern(pattern: str, becomes: list[str]) -> None:
    """For each of its values; one that could be read as something else than itself gives nothing."""
    claims = {
        "tenant": "acme",
        "org": {"id": 7},
        "groups": ["desk", "night"],
        "flag": True,
        "wild": ["*", "**"],
        "deep": "a/b",
        "brace": ["{username}", "{x"],
        "part": "a*",
        "blank": "",
        "first": ["user", "__sys__", "plain"],
    }
    for found in (
        mapped(claims | {"permissions": {"sub": [pattern]}}),
        mapped(claims | {"permissions": ["a list of another meaning"]}, subscribe=(pattern,)),
    ):
        assert list(found.permissions["sub"]) == becomes


def test_patterns_of_the_settings_are_all_there_is() -> None:
    """A token adds nothing to them, and they decide as its own would."""
    grants = JwtGrants(
        KEYS, claim_map=ClaimMap(groups="roles", subscribe=("/d/{group}/**",), publish=("/in/{username}",))
    )
    token = token_of({"sub": "ann", "exp": NOW // 1000 + 60, "roles": ["desk"], "permissions": {"all": ["/**"]}})
    ann = grants.principal(token, NOW)
    asked = [(SUBSCRIBE, "/d/desk/1"), (SUBSCRIBE, "/d/night/1"), (PUBLISH, "/in/ann"), (PUBLISH, "/d/desk/1")]
    assert [grants.check(ann, action, subject, NOW) == "" for action, subject in asked] == [True, False, True, False]
    assert grants.explain(ann, "/d/desk/1", NOW).reason == "the token permits /d/desk/**"


def test_values_without_end_are_bounded() -> None:
    """Each pattern for itself, and all together."""
    many = [str(number) for number in range(600)]
    for patterns in (["/a/{many}/{many}"], ["/a/{many}", "/b/{many}"]):
        with pytest.raises(Refused, match="over 1000 patterns"):
            mapped({"many": many, "permissions": {"sub": patterns}})
    assert len(mapped({"many": many, "permissions": {"sub": ["/a/{many}"]}}).permissions["sub"]) == 600


def test_a_claim_stands_for_nothing_in_a_token_of_django() -> None:
    grants = RuleGrants(KEYS)
    ann = grants.principal(
        token_of(
            {
                "aud": AUDIENCE,
                "sub": "ann",
                "exp": NOW // 1000 + 60,
                "tenant": "acme",
                "permissions": {"sub": ["/t/{tenant}"]},
            }
        ),
        NOW,
    )
    assert ann.permitted is not None
    assert not ann.permitted.rules


@pytest.mark.parametrize("token", ["tok", "schlüssel ☂ ", "eyJ.a.b"])
def test_everybody_reads_and_the_token_publishes(token: str) -> None:
    """Whatever text it is; any other, such as one that a page has from Django, is a reader's."""
    grants = BasicGrants(token)
    publisher = grants.principal(token, NOW)
    assert grants.check(publisher, PUBLISH, "/a/b", NOW) == ""
    for other in ("", "other", token + " ", "\ud800x"):
        reader = grants.principal(other, NOW)
        assert grants.check(reader, SUBSCRIBE, "/a/b", NOW) == ""
        assert grants.check(reader, PUBLISH, "/a/b", NOW) == "the publish token is needed"
        assert "/a/b" not in (grants.publishable(reader) or ())
        assert (reader.user, reader.expires) == ("", None)


def test_without_a_publish_token_nobody_publishes() -> None:
    """Above all not who brings none."""
    grants = BasicGrants("")
    for token in ("", "x"):
        assert "nobody publishes" in grants.check(grants.principal(token, NOW), PUBLISH, "/a/b", NOW)
