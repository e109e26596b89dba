"""The keys that tokens are signed with: made, rotated without a gap, published, and never half written."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from django.core.management import CommandError, call_command

from entitlement import conf, keys, tokens
from fastpath.client.control.client import Control
from fastpath.core.auth.keys import Keys, read_key_set
from fastpath.core.auth.tokens import verify
from fastpath.core.protocol.errors import Close, Refused
from realtime.conf import conf as project
from realtime.management.commands.runrealtime import _refuse_disagreement, _sidecar
from tests.support.entitlement.live import Viewer
from tests.support.rights import load_rights
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

DAY = 24 * 3600


@pytest.fixture
def path(tmp_path: Path, settings: Any) -> Path:
    """The file that the settings name; it is not there yet."""
    file = tmp_path / "made" / "keys.json"
    settings.REALTIME = settings.REALTIME | {"TOKEN_KEYS": str(file), "TOKEN_SECRET": None}
    return file


def run(*arguments: object) -> str:
    """The command's output."""
    out = io.StringIO()
    call_command("realtime_keys", *arguments, stdout=out)
    return out.getvalue()


def sidecar(path: Path) -> Keys:
    """What a sidecar makes of the public file; nothing in it is worth a note."""
    found, notes = read_key_set(Path(keys.public_path(str(path))).read_bytes())
    assert notes == []
    return Keys(conf.sidecar_secret(), found)


def now() -> int:
    """In ms."""
    return int(time.time() * 1000)


def later(path: Path, seconds: int) -> None:
    """So much time passes for all keys."""
    content = json.loads(path.read_text())
    for jwk in content["keys"]:
        for name in ("iat", "nbf", "exp"):
            if name in jwk:
                jwk[name] -= seconds
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("algorithm", keys.ALGORITHMS)
def test_tokens_are_signed_with_the_key(bob: Any, path: Path, algorithm: str) -> None:
    """And verified with its public part alone."""
    run("--new", algorithm)
    token, expires = tokens.mint(bob)
    header = jwt.get_unverified_header(token)
    assert (header["alg"], header["kid"]) == (algorithm, keys.load(str(path))[0]["kid"])
    claims = verify(token, sidecar(path), now())
    assert (claims.user, claims.expires) == ("bob", expires)
    with pytest.raises(Refused):
        verify(token, Keys(conf.token_secret()), now())


def test_nothing_private_is_published_and_nobody_else_reads_the_file(path: Path) -> None:
    for algorithm in keys.ALGORITHMS:
        run("--new", algorithm)
    public = Path(keys.public_path(str(path)))
    assert path.stat().st_mode & 0o777 == 0o600
    assert public.stat().st_mode & 0o777 == 0o644
    for jwk in json.loads(public.read_text())["keys"]:
        assert not jwk.keys() & {"d", "p", "q", "dp", "dq", "qi", "k", "key_ops"}
        assert jwk.keys() >= {"kty", "kid", "alg", "use"}
    assert json.loads(run("--public", "-")) == json.loads(public.read_text())
    elsewhere = path.with_name("elsewhere.json")
    run("--public", elsewhere)
    assert elsewhere.read_text() == public.read_text()
    assert sorted(file.name for file in path.parent.iterdir()) == ["elsewhere.json", "keys.json", "keys.public.json"]


def test_a_rotation_has_no_gap(bob: Any, path: Path) -> None:
    """The new key is published before it signs, and the old one stays until its last token has ended."""
    run("--new", "EdDSA")
    [first] = keys.load(str(path))
    old = tokens.mint(bob, seconds=30 * DAY)[0]
    assert "signs" in run()
    told = run("--new", "ES256")
    assert "signs from" in told
    assert "is kept until" not in told, "it still signs"
    assert jwt.get_unverified_header(tokens.mint(bob)[0])["kid"] == first["kid"]
    assert [jwk["alg"] for jwk in json.loads(Path(keys.public_path(str(path))).read_text())["keys"]] == [
        "EdDSA",
        "ES256",
    ]
    later(path, keys.START_SECONDS)
    assert jwt.get_unverified_header(tokens.mint(bob)[0])["alg"] == "ES256"
    assert "is kept until" in run()
    for token in (old, tokens.mint(bob)[0]):
        assert verify(token, sidecar(path), now()).user == "bob"
    later(path, 30 * DAY - 60)
    run()
    assert not sidecar(path).miss(first["kid"])
    later(path, 120)
    run()
    assert sidecar(path).miss(first["kid"]), "nothing that it signed is alive"
    run("--new", "EdDSA", "--start", 0)
    assert [jwk["alg"] for jwk in keys.load(str(path))] == ["ES256", "EdDSA"]
    assert jwt.get_unverified_header(tokens.mint(bob)[0])["alg"] == "EdDSA"


def test_a_stolen_key_is_taken_out_at_once(bob: Any, path: Path) -> None:
    run("--new", "EdDSA")
    [stolen] = keys.load(str(path))
    token = tokens.mint(bob)[0]
    with pytest.raises(CommandError, match="only key that signs"):
        run("--remove", stolen["kid"])
    with pytest.raises(CommandError, match="holds no key 'x'"):
        run("--remove", "x")
    run("--new", "EdDSA", "--remove", stolen["kid"])
    assert stolen["kid"] not in path.read_text()
    with pytest.raises(Refused) as caught:
        verify(token, sidecar(path), now())
    assert caught.value.code == Close.TOKEN_EXPIRED
    assert verify(tokens.mint(bob)[0], sidecar(path), now()).user == "bob", "the new one signs though it is new"


def test_a_new_key_that_is_taken_out_leaves_one_that_signs_for_good(bob: Any, path: Path) -> None:
    """The ends that it gave to others are those of keys that are followed; now the one after it follows, or none."""
    for start in (0, 100, 1000):
        run("--new", "EdDSA", "--start", start)
    first, second, third = keys.load(str(path))
    run("--remove", second["kid"])
    assert [jwk.get("exp") for jwk in keys.load(str(path))] == [third["nbf"] + conf.TOKEN_SECONDS_MAX, None]
    run("--remove", third["kid"])
    assert [(jwk["kid"], jwk.get("exp")) for jwk in keys.load(str(path))] == [(first["kid"], None)]
    later(path, 31 * DAY)
    run()
    assert verify(tokens.mint(bob)[0], sidecar(path), now()).user == "bob"
    run("--new", "EdDSA", "--start", 0)
    run("--new", "EdDSA", "--start", 0)
    ends = [jwk.get("exp") for jwk in keys.load(str(path))]
    run("--remove", keys.load(str(path))[1]["kid"])
    assert [jwk.get("exp") for jwk in keys.load(str(path))] == [ends[0], None], (
        "who does not sign any more ends as told"
    )


def test_a_rotation_keeps_the_owners_of_the_file(path: Path) -> None:
    """Who runs the command may be another than who runs the web server."""
    run("--new", "EdDSA")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    before = path.stat()
    run("--new", "EdDSA")
    after = path.stat()
    assert after.st_ino != before.st_ino, "written aside, and put in place whole"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_the_sidecar_gets_the_secret_only_where_it_is_needed(path: Path, settings: Any) -> None:
    run("--new", "EdDSA")
    public = keys.public_path(str(path))
    assert (project.token_secret, project.token_keys) == ("", public)
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECRET": "s" * 32}
    assert (project.token_secret, project.token_keys) == ("s" * 32, public), "tokens of before count until they end"
    settings.REALTIME = settings.REALTIME | {"TOKEN_KEYS": None, "TOKEN_SECRET": None}
    assert (project.token_secret, project.token_keys) == (conf.token_secret(), "")


def test_runrealtime_gives_the_sidecar_the_public_keys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("--new", "EdDSA")
    public = Path(keys.public_path(str(path)))
    public.unlink()
    environment = _sidecar().environment()
    assert (environment["FASTPATH_TOKEN_KEYS"], environment["FASTPATH_TOKEN_SECRET"]) == (str(public), "")
    assert public.exists()
    monkeypatch.setenv("FASTPATH_TOKEN_KEYS", "/other/keys.json")
    with pytest.raises(CommandError, match="FASTPATH_TOKEN_KEYS of the environment is not"):
        _refuse_disagreement()
    path.write_text("{")
    with pytest.raises(CommandError, match="it is no JSON"):
        _refuse_disagreement()


def test_a_rotation_reaches_a_running_sidecar(bob: Any, path: Path) -> None:
    """Nobody is disconnected, and the first token of the new key is taken at once if it had its time."""
    run("--new", "ES256")
    old = tokens.mint(bob)[0]
    public = keys.public_path(str(path))
    with Sidecar(mode="rules", token_keys=public) as sidecar, Control(sidecar.control) as control:
        load_rights(sidecar.control)
        with Viewer(sidecar.client_url, old) as viewer:
            run("--new", "EdDSA", "--start", 0)
            new = tokens.mint(bob)[0]
            until(lambda: control.check("/a/b", "publish", new)["reason"] == "no rule allows it")
            with Viewer(sidecar.client_url, new), Viewer(sidecar.client_url, old):
                assert viewer.ask("ping")["op"] == "pong"


def test_what_is_wrong_with_the_file_is_said(bob: Any, path: Path, settings: Any) -> None:
    def told() -> str:
        with pytest.raises(keys.KeysError) as caught:
            tokens.mint(bob)
        with pytest.raises(CommandError):
            call_command("realtime_token", "bob")
        return str(caught.value)

    assert "make it with `manage.py realtime_keys --new EdDSA`" in told()
    with pytest.raises(CommandError, match="is not there"):
        run()
    run("--new", "EdDSA")
    good = path.read_text()
    path.write_text(Path(keys.public_path(str(path))).read_text())
    assert "holds no private key" in told()
    for content, words in (
        ("{", "it is no JSON"),
        ('{"keys": []}', "no key"),
        (good.replace('"kid"', '"kit"'), "kid"),
        (good.replace('"alg": "EdDSA"', '"alg": "HS256"'), "alg"),
    ):
        path.write_text(content)
        assert words in told()
        with pytest.raises(CommandError):
            run("--new", "EdDSA")
        assert path.read_text() == content, "left as it is"
    settings.REALTIME = settings.REALTIME | {"TOKEN_KEYS": None}
    with pytest.raises(CommandError, match="names no file"):
        run("--new", "EdDSA")
