"""The commands print what scripts rely on and refuse with a reason."""

from __future__ import annotations

import io
import time

import pytest
from django.core.management import CommandError, call_command

from entitlement import conf
from entitlement.models import Rule
from fastpath.core.auth.keys import Keys
from fastpath.core.auth.tokens import verify


def _run(*args: object, **options: object) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out, **options)
    return out.getvalue()


def test_token_alone(bob):
    now = int(time.time() * 1000)
    text = _run("realtime_token", "bob")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    claims = verify(text.strip(), Keys(conf.token_secret()), now)
    assert claims.user == "bob"
    assert claims.expires - now == pytest.approx(12 * 3600_000, abs=5000)
    short = verify(_run("realtime_token", "bob", "--seconds=60").strip(), Keys(conf.token_secret()), now)
    assert short.expires <= time.time() * 1000 + 61000


def test_token_refusals(bob):
    with pytest.raises(CommandError, match="There is no user 'bib'; some are bob"):
        _run("realtime_token", "bib")
    with pytest.raises(CommandError, match="may be valid for 2592000 seconds at most"):
        _run("realtime_token", "bob", "--seconds=99999999")
    type(bob).objects.update(is_active=False)
    with pytest.raises(CommandError, match="not an active user"):
        _run("realtime_token", "bob")


def test_explain_without_sidecar(bob, settings, tmp_path):
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    Rule.objects.create(user=bob, pattern="/a/*")
    text = _run("entitlement_explain", "bob", "/a/b")
    assert text.startswith("bob may subscribe /a/b: rule ")
    assert "No answer of the sidecar: " in text
    with pytest.raises(CommandError, match="There is no user 'bib'"):
        _run("entitlement_explain", "bib", "/a/b")
    with pytest.raises(CommandError, match="reserved segment"):
        _run("entitlement_explain", "bob", "/a/*")
