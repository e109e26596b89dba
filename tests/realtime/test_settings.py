"""The production settings of docs/operate/checkout.md pass Django's deployment check."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guide import one
from tests.support.realtime.server import ROOT
from tests.support.sidecar import Sidecar


def _block() -> str:
    """The commands of the page."""
    return one("docs/operate/checkout.md", "sh", "check --deploy")


def _run(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """In a shell that stops at the first command that fails."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("REALTIME_", "FASTPATH_"))}
    environment = base | {"REALTIME_VAR": str(folder / "var")} | more
    return subprocess.run(
        ["sh", "-e", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_check_deploy_is_clean(tmp_path: Path) -> None:
    """As the page has it, with a running sidecar; and not without HTTPS."""
    key = tmp_path / "key"
    key.write_text(secrets.token_urlsafe(48))
    script = _block().replace("/etc/realtime/secret_key", shlex.quote(str(key)))
    script = script.replace("python manage.py", f"{shlex.quote(sys.executable)} manage.py")
    with Sidecar(mode="none") as sidecar:
        done = _run(script, tmp_path, FASTPATH_CONTROL=sidecar.control)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "System check identified no issues (0 silenced)." in done.stdout + done.stderr
        script = "\n".join(line for line in script.splitlines() if "HTTPS" not in line and "collectstatic" not in line)
        done = _run(script, tmp_path, FASTPATH_CONTROL=sidecar.control)
        assert done.returncode == 1
        assert "SESSION_COOKIE_SECURE" in done.stderr


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("proxy", "True ('HTTP_X_FORWARDED_PROTO', 'https')"),
        ("direct", "True None"),
        ("0", "False None"),
        ("on", "REALTIME_HTTPS is 0, direct or proxy, not 'on'"),
    ],
)
def test_https(tmp_path: Path, value: str, said: str) -> None:
    """A proxy's word counts only where one is said to be there."""
    names = "getattr(s, 'SESSION_COOKIE_SECURE', False), getattr(s, 'SECURE_PROXY_SSL_HEADER', None)"
    script = f'{shlex.quote(sys.executable)} -c "import realtime.settings as s; print({names})"'
    done = _run(script, tmp_path, REALTIME_HTTPS=value)
    assert said in done.stdout + done.stderr
