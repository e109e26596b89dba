"""The keys of tokens, fetched from a real server: with two workers, while they change, and while it does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from jwt.algorithms import OKPAlgorithm

from fastpath.client.control.client import Control
from tests.support.edge.spread import spread
from tests.support.edge.wire import Ended, WireClient
from tests.support.identity_provider import Provider
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

WORKERS = 2
PRIVATE = {kid: ed25519.Ed25519PrivateKey.generate() for kid in ("one", "two")}
SECRET = {"kty": "oct", "kid": "open", "k": "c2VjcmV0IHRoYXQgYW55Ym9keSBjYW4gcmVhZCwgMzIgYnl0ZXM"}


def key_set(*kids: str) -> bytes:
    """What the address answers with these keys."""
    public = [OKPAlgorithm.to_jwk(PRIVATE[kid].public_key(), as_dict=True) | {"kid": kid} for kid in kids]
    return json.dumps({"keys": public}).encode()


def token(kid: str) -> str:
    """What the provider gives Ann."""
    claims = {"sub": "ann", "exp": 4_000_000_000, "permissions": {"sub": ["/s/**"]}}
    return jwt.encode(claims, PRIVATE[kid], "EdDSA", headers={"kid": kid})


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    found = Provider(tmp_path, key_set("one"))
    monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate.cert))
    yield found
    found.stop()


def sidecar(provider: Provider, **settings: Any) -> Sidecar:
    return Sidecar(mode="jwt", token_keys=provider.url, workers=WORKERS, **settings)


def code_of(sidecar: Sidecar, kid: str) -> int:
    """The code with which a client with this token is closed; 0: it is let in."""
    with WireClient(sidecar) as client:
        client.say("connect", token=token(kid))
        try:
            client.answer("connected")
        except Ended as ended:
            return ended.code
        return 0


def test_keys_come_change_and_go_while_clients_stay(provider: Provider) -> None:
    """Until they have come nobody is turned away for good; on every worker a key's end is its tokens' end."""
    with sidecar(provider, token_keys_seconds=1) as node, Control(node.control) as control:
        assert "keys" in control.call("health")["reasons"]
        assert code_of(node, "one") == 4005
        until(lambda: "left as they are" in node.log, 30)
        provider.start()
        until(lambda: control.call("health")["ready"], 30)
        with spread(node, WORKERS, token=token("one")) as people:
            for client in people.all:
                assert [one.get("error") for one in client.subscribe("/s/a", "/t/a")] == [None, "denied"]
            assert code_of(node, "two") == 4007
            for answer in ((500, {}, b"no"), (200, {}, b'{"keys": ['), (200, {}, b"x" * (2 << 20))):
                before, provider.answer = provider.asked, answer
                until(lambda before=before: provider.asked > before + 1, 30)
            control.publish([["/s/a", "1"]])
            assert all(client.texts(1) == ["1"] for client in people.all), "what was there counts on"
            provider.answer = (200, {}, key_set("one", "two"))
            until(lambda: code_of(node, "two") == 0, 70)
            provider.answer = (200, {}, key_set("two"))
            for client in people.all:
                assert client.answer("revoked")["subjects"] == ["/s/a"]
                with pytest.raises(Ended) as ended:
                    client.next()
                assert ended.value.code == 4007
        assert "Traceback" not in node.log


@pytest.mark.slow
def test_a_token_of_a_new_key_has_the_keys_fetched(provider: Provider) -> None:
    """Whichever worker it comes to; long before their time, and not more often for more such tokens."""
    provider.start()
    with sidecar(provider, token_keys_seconds=3600) as node, Control(node.control) as control:
        until(lambda: control.call("health")["ready"], 30)
        assert provider.asked == 1, "the first worker asks for all"
        provider.answer = (200, {}, key_set("one", "two"))
        until(lambda: code_of(node, "two") == 0, 60)
        assert provider.asked <= 8, "one each 10 s at most"
        before = provider.asked
        control.call("reload")
        until(lambda: provider.asked > before, 30)


def test_what_is_no_set_that_one_may_trust_is_named(provider: Provider) -> None:
    """A redirection, a certificate of somebody else, a secret that all can read."""
    provider.answer = (302, {"Location": "https://elsewhere.example.com/keys"}, b"")
    provider.start()
    with sidecar(provider, token_keys_seconds=1) as node:
        until(lambda: "names 'https://elsewhere.example.com/keys'" in node.log, 30)
        provider.answer = (200, {}, json.dumps({"keys": [SECRET]}).encode())
        until(lambda: "it is a secret, and anybody can read this set" in node.log, 30)


def test_a_certificate_that_nobody_vouches_for(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    provider.start()
    with sidecar(provider) as node:
        until(lambda: "CERTIFICATE_VERIFY_FAILED" in node.log, 30)
        assert provider.asked == 0
