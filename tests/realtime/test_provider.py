"""Tokens of an identity provider at the token endpoint: which claims are the user and the groups."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from django.contrib.auth.models import Group, User
from django.test import Client
from jwt.algorithms import OKPAlgorithm

from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify
from realtime import checks, provider
from realtime.conf import conf
from tests.support.identity_provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)

KEY, NEXT = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
ISSUER = "https://id.example.com"


def key_set(**named: ed25519.Ed25519PrivateKey) -> bytes:
    """What the provider answers."""
    keys = [OKPAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": kid} for kid, key in named.items()]
    return json.dumps({"keys": keys}).encode()


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Provider]:
    """A provider that answers, and whom the project believes."""
    found = Provider(tmp_path, key_set(one=KEY))
    monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate.cert))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(provider, "_sets", provider._KeySets())
    settings.REALTIME = settings.REALTIME | {
        "TOKEN_AUTHENTICATORS": ["realtime.provider.ProviderAuthentication"],
        "PROVIDER": {
            "KEYS": found.url,
            "ISSUER": ISSUER,
            "AUDIENCE": "market-data",
            "USER_CLAIM": "preferred_username",
            "GROUPS_CLAIM": "realm_access.roles",
            "GROUPS": {"ny": "NYSE desk", "ldn": "LSE desk"},
        },
    }
    found.start()
    yield found
    found.stop()


def token(*roles: str, key: Any = KEY, kid: str = "one", **claims: Any) -> str:
    """An access token of ann's."""
    said = {"sub": "7f", "preferred_username": "ann", "iss": ISSUER, "aud": "market-data"}
    said |= {"exp": int(time.time()) + 600, "realm_access": {"roles": list(roles)}} | claims
    return jwt.encode(said, key, "EdDSA", headers={"kid": kid})


def ask(given: str) -> Any:
    """What the token endpoint answers."""
    return Client().post("/realtime/token/", headers={"Authorization": f"Bearer {given}"})


def test_claims_are_a_user_and_groups(named: Provider) -> None:
    """Made at the first visit, put into the groups that are named and taken out, and never into others."""
    mine = Group.objects.create(name="by hand")
    Group.objects.create(name="admins")
    answer = ask(token("ny", "admins"))
    assert (answer.status_code, answer.json()["user"]) == (200, "provider-ann")
    ann = User.objects.get(username="provider-ann")
    ann.groups.add(mine)
    claims = verify(answer.json()["token"], Keys(conf.token_secret), 0)
    assert claims.groups == (str(Group.objects.get(name="NYSE desk").pk),)
    assert (ann.has_usable_password(), ann.is_staff, ann.is_superuser) == (False, False, False)
    assert ask(token("ldn")).status_code == 200
    assert set(ann.groups.values_list("name", flat=True)) == {"by hand", "LSE desk"}
    assert ask(token()).status_code == 200
    assert set(ann.groups.values_list("name", flat=True)) == {"by hand"}
    assert User.objects.count() == 1
    assert named.asked == 1


def test_a_token_lives_no_longer_than_the_providers(named: Provider) -> None:
    ends = int(time.time()) + 100
    assert ask(token(exp=ends)).json()["expires"] <= ends * 1000


@pytest.mark.parametrize(
    "bad",
    [
        {"aud": "others"},
        {"aud": None},
        {"iss": "https://evil.example.com"},
        {"exp": 1},
        {"preferred_username": None},
        {"preferred_username": ["ann", "bob"]},
        {"preferred_username": "x" * 200},
        {"key": NEXT},
        {"kid": "two", "key": NEXT},
    ],
)
def test_tokens_that_are_not_taken(named: Provider, bad: dict[str, Any]) -> None:
    """And nobody is made for them."""
    assert ask(token(**bad)).status_code == 401
    assert not User.objects.exists()


def test_whom_the_project_has_locked_out(named: Provider) -> None:
    """Or who is there already by another way: the provider's names are apart from these."""
    User.objects.create_superuser("ann")
    assert ask(token()).json()["user"] == "provider-ann"
    User.objects.filter(username="provider-ann").update(is_active=False)
    assert ask(token()).status_code == 401
    assert ask("no.token.atall").status_code == 401
    assert Client().post("/realtime/token/").status_code == 401


def test_keys_that_change_and_cannot_be_had(named: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is looked for, not more often than is well; those that were there count on while nobody answers."""
    moment = 1000.0
    monkeypatch.setattr(provider, "_sets", provider._KeySets(lambda: moment))
    assert ask(token()).status_code == 200
    named.answer = (200, {}, key_set(one=KEY, two=NEXT))
    assert ask(token(key=NEXT, kid="two")).status_code == 401, "it was asked a moment ago"
    moment += provider.MISSED_SECONDS
    assert ask(token(key=NEXT, kid="two")).status_code == 200
    assert named.asked == 2
    named.answer = (500, {}, b"")
    moment += provider.KEYS_SECONDS
    for asked in (3, 3):
        assert ask(token()).status_code == 200
        assert named.asked == asked
    moment += 1
    assert ask(token()).status_code == 200
    assert named.asked == 4
    monkeypatch.setattr(provider, "_sets", provider._KeySets())
    assert ask(token()).status_code == 503, "there are none at all: come again"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"USER_PREFIX": ""}, ""),
        ({"KEYS": ""}, '"KEYS"] is a text'),
        ({"KEYS": "http://id.example.com/keys"}, "http:// is for this machine alone"),
        ({"AUDIENCE": None}, '"AUDIENCE"] is a text, not None'),
        ({"USER_CLAIM": 3}, '"USER_CLAIM"] is a text, not 3'),
        ({"GROUPS": ["ny"]}, '"GROUPS"] is like'),
        ({"GROUP": {}}, "'GROUP' is none of KEYS, ISSUER"),
    ],
)
def test_a_check_names_what_is_wrong(named: Provider, settings: Any, change: dict[str, Any], says: str) -> None:
    settings.REALTIME = settings.REALTIME | {"PROVIDER": settings.REALTIME["PROVIDER"] | change}
    found = [(message.id, says in message.msg) for message in checks.check_provider()]
    assert found == ([("realtime.E024", True)] if says else [])
