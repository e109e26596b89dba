"""Modes basic and jwt on a real sidecar: who may do what on each port, and keys that change under way."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from fastpath.client.control.client import Control
from fastpath.listen_address import SettingsError
from fastpath.server.modes import make_grants
from fastpath.settings import load
from tests.support.edge.spread import spread
from tests.support.edge.wire import Ended, WireClient, WirePublisher
from tests.support.sidecar import Sidecar
from tests.support.tokens import SECRET, mint, mint_jwt
from tests.support.waiting import until

WORKERS = 2
PERMISSIONS = {"sub": ["/s/**"], "pub": ["/p/**"]}
PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
READERS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def write_keys(path: Path, *algorithms: str) -> None:
    """The public file with these keys, each named after its algorithm."""
    public = [READERS[one].to_jwk(PRIVATE[one].public_key(), as_dict=True) | {"kid": one} for one in algorithms]
    put(path, json.dumps({"keys": public}))


def put(path: Path, text: str) -> None:
    """Put a file in place as a whole: nobody reads half of it."""
    aside = path.with_suffix(".aside")
    aside.write_text(text)
    os.replace(aside, path)


def signed(algorithm: str, **claims: Any) -> str:
    """A token of the outside issuer."""
    content = {"sub": "ann", "aud": "market", "iss": "https://id.example.com", "exp": int(time.time()) + 3600}
    key = PRIVATE[algorithm]
    return jwt.encode(content | {"permissions": PERMISSIONS} | claims, key, algorithm, headers={"kid": algorithm})


def refused(sidecar: Sidecar, token: str) -> tuple[int, str]:
    """The code with which a client with this token is closed, and a publisher too."""
    with WireClient(sidecar) as client:
        client.say("connect", token=token)
        answer = client.closed()
    with WireClient(sidecar, path=f"/ws?token={token}") as client:
        assert client.closed() == answer
    with WirePublisher(sidecar, hello=False) as publisher:
        publisher.packet("hello", {"token": token})
        code, reason = publisher.closed()
    assert (code, reason.partition(":")[0]) == answer
    return answer


def test_basic() -> None:
    token = "ein Wort für alle ☂"
    with Sidecar(mode="basic", publish_token=token) as sidecar:
        with WireClient(sidecar) as reader, WireClient(sidecar) as page, WirePublisher(sidecar, token) as publisher:
            assert page.ask("connect", "connected", token=mint("ann"))["user"] == ""
            for client in (reader, page):
                assert "sid" in client.subscribe("/s/a")[0]
                answer = client.ask("publish", "published", subject="/s/a", content="no", closure="c")
                assert (answer["status"], answer["reason"]) == ("denied", "the publish token is needed")
            assert publisher.publish(["/s/a", "1"]) == [1]
            assert reader.texts(1) == page.texts(1) == ["1"]
            page.ask("token", "renewed", token=token)
            answer = page.ask("publish", "published", subject="/s/a", content="2", closure="c")
            assert answer["status"] == "ok"
            assert reader.texts(1) == ["2"]
        with WirePublisher(sidecar, token + "!") as other:
            assert other.publish(["/s/a", "3"]) == [["denied", "the publish token is needed"]]
        with Control(sidecar.control) as control:
            assert control.check("/s/a", "publish", token)["allowed"]
            assert not control.check("/s/a", "publish")["allowed"]
            assert control.snapshot("/s/a")["message"]["content"] == "2"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of keys."""
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def issued(path: Path) -> Iterator[Sidecar]:
    """A sidecar that takes the tokens of an outside issuer."""
    write_keys(path, *PRIVATE)
    issuer = {"token_audience": "market", "token_issuer": "https://id.example.com"}
    with Sidecar(mode="jwt", token_keys=path, workers=WORKERS, **issuer) as sidecar:
        yield sidecar
        assert "Traceback" not in sidecar.log, sidecar.log


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_an_outside_issuers_token(issued: Sidecar, algorithm: str) -> None:
    with WireClient(issued) as client, WirePublisher(issued, signed(algorithm)) as publisher:
        assert client.ask("connect", "connected", token=signed(algorithm))["user"] == "ann"
        assert [one.get("error") for one in client.subscribe("/s/a", "/t/a")] == [None, "denied"]
        assert publisher.publish(["/p/a", "1"], ["/s/a", "2"])[1] == ["denied", "no permission in the token covers it"]


def test_the_claims_that_are_the_user_and_the_groups() -> None:
    """By the settings, with patterns for everybody: the issuer's own are not looked at."""
    settings = {
        "token_user_claim": "preferred_username",
        "token_groups_claim": "realm_access.roles",
        "token_subscribe": "/desks/{group}/**,/tenants/{tenant}",
        "token_publish": "/in/{username}",
    }
    claims = {
        "sub": "7f3a",
        "exp": int(time.time()) + 3600,
        "preferred_username": "ann",
        "realm_access": {"roles": ["ny"]},
        "tenant": "acme",
        "permissions": ["read:everything"],
    }
    token = jwt.encode(claims, SECRET, "HS256")
    with Sidecar(mode="jwt", token_secret=SECRET, **settings) as sidecar:
        with WireClient(sidecar) as client, WirePublisher(sidecar, token) as publisher:
            assert client.ask("connect", "connected", token=token)["user"] == "ann"
            asked = client.subscribe("/desks/ny/a", "/desks/ldn/a", "/tenants/acme", "/tenants/other", "/user/ann/x")
            assert [one.get("error") for one in asked] == [None, "denied", None, "denied", None]
            assert isinstance(publisher.publish(["/in/ann", "1"])[0], int)
        nameless = jwt.encode(claims | {"preferred_username": None}, SECRET, "HS256")
        assert refused(sidecar, nameless) == (4501, "bad_token")


def test_tokens_that_are_not_taken(issued: Sidecar) -> None:
    """On every port, with a code after which nobody comes again (protocol.md 7)."""
    good = signed("RS256")
    header, payload, signature = good.split(".")
    public = PRIVATE["RS256"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    confused = f"{jwt.utils.base64url_encode(json.dumps({'alg': 'HS256', 'kid': 'RS256'}).encode()).decode()}.{payload}"
    stamp = jwt.get_algorithm_by_name("HS256").sign(confused.encode(), public)
    unsigned = jwt.utils.base64url_encode(b'{"alg":"none"}').decode()
    now = int(time.time())
    for token in (
        f"{unsigned}.{payload}.",
        f"{unsigned}.{payload}.{signature}",
        f"{confused}.{jwt.utils.base64url_encode(stamp).decode()}",
        f"{header}.{payload}.",
        signed("RS256", aud="casino"),
        signed("RS256", aud=None),
        signed("RS256", iss="https://evil.example.com"),
        signed("RS256", permissions="/**"),
        mint_jwt("ann", both=["/**"]),
        mint_jwt("ann", both=["/**"], secret=SECRET * 2),
        "no-token",
    ):
        assert refused(issued, token) == (4501, "bad_token"), token
    assert refused(issued, signed("RS256", exp=now - 1)) == (4007, "token_expired")
    assert refused(issued, signed("RS256", nbf=now + 60)) == (4005, "not_ready")
    with WireClient(issued) as client:  # the issuer's clock may be ahead
        assert client.ask("connect", "connected", token=signed("RS256", nbf=now + 5))["user"]


def test_keys_that_change_under_way(issued: Sidecar, path: Path) -> None:
    """On every worker: what a key signed that is gone ends, a new one is known, and a broken file changes nothing."""
    told = issued.log.count("is left as it was read before")
    subject = f"/s/{time.monotonic_ns()}"  # another one at a second try
    with Control(issued.control) as control, ExitStack() as stack:
        stack.callback(control.call, "reload")
        stack.callback(write_keys, path, *PRIVATE)
        goes, stays = (stack.enter_context(spread(issued, WORKERS, token=signed(one))) for one in ("RS256", "EdDSA"))
        publisher = stack.enter_context(WirePublisher(issued, signed("RS256")))
        for client in goes.all + stays.all:
            assert "sid" in client.subscribe(subject)[0]
        put(path, '{"keys": [')
        until(lambda: issued.log.count("is left as it was read before") == told + WORKERS)
        control.publish([[subject, "1"]])
        assert all(client.texts(1) == ["1"] for client in goes.all + stays.all)
        write_keys(path, "EdDSA")
        for client in goes.all:
            assert client.answer("revoked")["subjects"] == [subject]
            with pytest.raises(Ended) as ended:
                client.next()
            assert (ended.value.code, "get a new token" in ended.value.reason) == (4007, True)
        assert publisher.closed()[0] == 4007, "though it publishes nothing"
        assert refused(issued, signed("RS256")) == (4007, "token_expired"), "a key that may come yet"
        control.publish([[subject, "2"]])
        assert all(client.texts(1) == ["2"] for client in stays.all)
        write_keys(path, *PRIVATE)
        control.call("reload")
        assert control.check(subject, "subscribe", signed("RS256"))["allowed"]
    assert issued.log.count("is left as it was read before") == told + WORKERS, "said once"


def test_a_sidecar_does_not_start_without_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(AssertionError, match=f"fastpath: FASTPATH_TOKEN_KEYS: {file}: No such file"):
        Sidecar(mode="jwt", token_keys=file).__enter__()
    for content in ("{}", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AAAA"}]}'):
        file.write_text(content)
        with pytest.raises(SettingsError, match=f"FASTPATH_TOKEN_KEYS: {file}: "):
            make_grants(load({"FASTPATH_MODE": "rules", "FASTPATH_TOKEN_KEYS": str(file)}))
