"""The system checks and the settings' reading."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory

from realtime import checks
from realtime.conf import conf, local_address
from tests.support.sidecar import Sidecar

ROOT = Path(__file__).parents[2]


def test_an_unknown_key_is_an_error_that_names_the_closest(settings: Any) -> None:
    """A mistyped key would leave the default in force."""
    assert checks.check_keys() == []
    settings.REALTIME = settings.REALTIME | {"TOKEN_SECOND": 60}
    [error] = checks.check_keys()
    assert (error.id, "TOKEN_SECONDS" in error.hint) == ("realtime.E001", True)


def test_the_sidecar_is_asked_for(settings: Any, tmp_path: Path, rules_sidecar: Sidecar) -> None:
    """It is away; it is there without rights; it needs none."""
    settings.REALTIME = settings.REALTIME | {"CONTROL": str(tmp_path / "none.sock")}
    [away] = checks.sidecar_messages()
    assert away.id == "realtime.W001"
    assert "runrealtime" in away.hint
    settings.REALTIME = settings.REALTIME | {"CONTROL": rules_sidecar.control}
    assert [found.id for found in checks.sidecar_messages()] == ["realtime.W002"]
    with Sidecar(mode="none") as unruled:
        settings.REALTIME = settings.REALTIME | {"CONTROL": unruled.control}
        assert checks.sidecar_messages() == []


@pytest.mark.parametrize(("command", "warned"), [(["check"], True), (["diffsettings"], False)])
def test_only_the_check_command_warns(command: list[str], warned: bool, tmp_path: Path) -> None:
    """Every command runs the checks; most have no need of the sidecar."""
    environment = os.environ | {"FASTPATH_CONTROL": str(tmp_path / "none.sock"), "REALTIME_VAR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert ("realtime.W001" in done.stderr) is warned


def test_the_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    """The next process reads the same."""
    program = "from realtime import settings; print(settings.SECRET_KEY)"
    environment = os.environ | {"REALTIME_VAR": str(tmp_path / "run")}
    keys = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert keys[0] == keys[1]
    assert len(keys[0]) > 50
    assert (tmp_path / "run" / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_control_path_that_is_too_long_for_the_kernel_moves(tmp_path: Path) -> None:
    """A project may lie deep."""
    program = "from realtime import settings; print(settings.REALTIME['CONTROL'])"
    environment = os.environ | {"REALTIME_VAR": str(tmp_path / ("deep" * 30)), "TMPDIR": str(tmp_path)}
    environment.pop("FASTPATH_CONTROL", None)
    path = Path(
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    assert path.parent.parent == tmp_path
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_pages_learn_addresses_that_work_where_they_are_shown(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is that of the request; over TLS the plain port is left out."""
    monkeypatch.delenv("FASTPATH_LISTEN", raising=False)
    request = RequestFactory().get("/", headers={"host": "localhost:8000"})
    host = request.get_host()
    assert conf.client_urls(host, secure=False) == ["ws://localhost:8800/ws", "ws://localhost:8000/ws"]
    assert conf.client_urls(host, secure=True) == ["wss://localhost:8000/ws"]
    assert conf.client_urls("[::1]:8000", secure=False)[0] == "ws://[::1]:8800/ws"
    settings.REALTIME = settings.REALTIME | {"CLIENT_URLS": ["wss://live.example.com/ws", "{web}"]}
    assert conf.client_urls("x.example.com", secure=True) == ["wss://live.example.com/ws", "wss://x.example.com/ws"]


def test_the_sidecars_addresses_are_those_it_listens_on() -> None:
    """A shared port, all addresses, TLS."""
    listen = "clients+tls://*:8843?cert=c&key=k,clients+publishers://*:8800"
    assert local_address(listen, "clients") == "127.0.0.1:8800"
    assert local_address(listen, "publishers") == "127.0.0.1:8800"
    assert local_address("publishers://10.0.0.5:8801", "publishers") == "10.0.0.5:8801"
    assert local_address("publishers://10.0.0.5:8801", "clients") == ""
