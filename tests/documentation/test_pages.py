"""What the pages for who has no Django in between print: files that a browser opens, tokens of an identity provider."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from django.contrib.auth.models import User
from django.test import Client
from jwt.algorithms import OKPAlgorithm
from playwright.sync_api import expect, sync_playwright

from fastpath.client.control import Control
from tests.support.browser.chromium import CHROMIUM, FLAGS, new_context
from tests.support.documentation.running import Run, here, shell
from tests.support.edge.wire import Ended, WireClient
from tests.support.guide import every, one
from tests.support.identity_provider import Provider
from tests.support.ports import free_port
from tests.support.realtime.server import ROOT, Program
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

PLAIN = "docs/develop/plain-page.md"
PROVIDER = "docs/develop/identity-provider.md"
SECONDS_MAX = 60
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
"""Whose `python` is this one."""


def exported(text: str) -> dict[str, str]:
    """The settings of a sidecar that a block exports."""
    found = re.findall(r"\bFASTPATH_(\w+)=(\S+)", text)
    assert found
    return {name.lower(): value.strip("'") for name, value in found}


@pytest.mark.browser
@pytest.mark.curl
def test_pages_without_a_framework(tmp_path: Path) -> None:
    """Both show what is published, whether they are open already or not."""
    port = free_port()
    *copying, serving = one(PLAIN, "sh", "http.server").replace("8000", str(port)).splitlines()
    shell("\n".join([f"cd {tmp_path}", *copying]), PATH=PATH, PYTHONPATH=str(ROOT))
    given = {"PATH": PATH, "PYTHONUNBUFFERED": "1"}
    settings = exported(one(PLAIN, "sh", "FASTPATH_MODE").replace("8000", str(port)))
    with (
        Sidecar(**settings) as sidecar,
        Program(["bash", "-c", f"exec {serving}"], given, r"Serving HTTP", SECONDS_MAX, folder=tmp_path),
        sync_playwright() as playwright,
    ):
        for block in every(PLAIN, "html", "<!-- site/"):
            (tmp_path / block.file).write_text(here(block.text, sidecar), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        open_already, later, events = (new_context(browser).new_page() for _ in range(3))
        open_already.goto(f"http://127.0.0.1:{port}/")
        expect(open_already.locator("#state")).to_have_text("subscribed", timeout=SECONDS_MAX * 1000)
        shell(here(one(PLAIN, "sh", "/api/publish"), sidecar))
        later.goto(f"http://127.0.0.1:{port}/")
        events.goto(f"http://127.0.0.1:{port}/events.html")
        for page in (open_already, later, events):
            expect(page.locator("#price")).to_have_text("193.20", timeout=SECONDS_MAX * 1000)
        browser.close()


KEY = ed25519.Ed25519PrivateKey.generate()


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """One that answers."""
    public = OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True) | {"kid": "one"}
    found = Provider(tmp_path, json.dumps({"keys": [public]}).encode())
    monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate.cert))
    monkeypatch.setenv("NO_PROXY", "*")
    found.start()
    yield found
    found.stop()


def token(**others: Any) -> str:
    """With the claims that the page prints."""
    claims = json.loads(one(PROVIDER, "json", "permissions")) | others
    return jwt.encode(claims, KEY, "EdDSA", headers={"kid": "one"})


@pytest.mark.curl
def test_a_sidecar_takes_the_tokens_of_a_provider(provider: Provider) -> None:
    """As the page's client reads; a list of permissions is refused, as it says."""
    settings = exported(one(PROVIDER, "sh", "FASTPATH_MODE=jwt").replace("https://id.example.com/keys", provider.url))
    with Sidecar(**settings) as sidecar, Control(sidecar.control) as control:
        until(lambda: control.call("health")["ready"], SECONDS_MAX)
        with WireClient(sidecar) as client:
            client.say("connect", token=token(permissions=["read:prices"]))
            with pytest.raises(Ended) as ended:
                client.next()
            assert ended.value.code == 4501
        text = here(one(PROVIDER, "sh", "curl -N"), sidecar)
        with Program(["bash", "-c", f"exec {text}"], {"NO_PROXY": "*", "TOKEN": token()}, "subscribed", 30) as reading:
            control.publish([["/stocks/us/IBM", "193.20"]])
            until(lambda: '"193.20"' in reading.output, SECONDS_MAX)
            assert '"user":"ann"' in reading.output


def test_a_sidecar_takes_the_groups_of_a_provider(provider: Provider) -> None:
    """By the page's settings, with a list of permissions that means something else."""
    settings = exported(one(PROVIDER, "sh", "FASTPATH_MODE=jwt").replace("https://id.example.com/keys", provider.url))
    with Sidecar(**settings | exported(one(PROVIDER, "sh", "FASTPATH_TOKEN_USER_CLAIM"))) as sidecar:
        with Control(sidecar.control) as control:
            until(lambda: control.call("health")["ready"], SECONDS_MAX)
        claims = {"preferred_username": "ann", "realm_access": {"roles": ["ny"]}, "permissions": ["read:prices"]}
        with WireClient(sidecar) as client:
            assert client.ask("connect", "connected", token=token(sub="7f", **claims))["user"] == "ann"
            asked = client.subscribe("/desks/ny/a", "/desks/ldn/a", "/inbox/ann", "/stocks/us/IBM")
            assert [one.get("error") for one in asked] == [None, "denied", None, None]


@pytest.mark.django_db
def test_claims_of_a_provider_are_users_and_groups(provider: Provider, settings: Any) -> None:
    """By the setting as the page prints it."""
    printed = Run(one(PROVIDER, "python", "realtime.provider.ProviderAuthentication"), {}).now().names["REALTIME"]
    printed["PROVIDER"]["KEYS"] = provider.url
    settings.REALTIME = settings.REALTIME | printed
    given = token(realm_access={"roles": ["ny-desk", "other"]})
    answer = Client().post("/realtime/token/", headers={"Authorization": f"Bearer {given}"})
    assert (answer.status_code, answer.json()["user"]) == (200, "provider-ann")
    assert list(User.objects.get().groups.values_list("name", flat=True)) == ["NYSE desk"]


@pytest.mark.django_db
def test_django_takes_the_tokens_of_a_provider(
    provider: Provider, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one of its own, that lives as long as the page's settings say; not for somebody who is locked out."""
    for block in every(PROVIDER, "python", "# mysite/provider.py"):
        path = tmp_path / block.file
        path.parent.mkdir()
        path.write_text(block.text.replace("https://id.example.com/keys", provider.url), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    printed = Run(one(PROVIDER, "python", "mysite.provider.ProviderAuthentication"), {}).now().names["REALTIME"]
    settings.REALTIME = settings.REALTIME | printed
    try:

        def ask(given: str) -> Any:
            return Client().post("/realtime/token/", headers={"Authorization": f"Bearer {given}"})

        answer = ask(token())
        assert (answer.status_code, answer.json()["user"]) == (200, "provider-ann")
        claims = jwt.decode(answer.json()["token"], options={"verify_signature": False})
        assert claims["exp"] - claims["iat"] == 600
        assert [ask(token(aud="others")).status_code, ask(token(exp=1)).status_code, ask("x").status_code] == [401] * 3
        User.objects.update(is_active=False)
        assert ask(token()).status_code == 401
    finally:
        for name in ("mysite.provider", "mysite"):
            sys.modules.pop(name, None)
