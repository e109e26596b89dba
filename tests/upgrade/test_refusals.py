"""What a later version has left is refused with the words of docs/operate/upgrade.md, and not misread."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.edge.wire import WirePublisher
from tests.support.realtime.server import ROOT
from tests.support.redis import RedisServer
from tests.support.sidecar import Sidecar

PAGE = ROOT / "docs" / "operate" / "upgrade.md"

OF_A_LATER_VERSION = """
import sys
from fastpath.__main__ import main
from fastpath.engine.journal import files, format
header = files.JournalHeader
files.JournalHeader = lambda *given: header(*given, version=format.VERSION + 1)
sys.exit(main([]))
"""
"""A sidecar whose journal has a form that this one does not know."""


def refused(**settings: str) -> str:
    """What a sidecar says that ends with 2 as it starts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FASTPATH_")}
    listen = {"listen": "clients://127.0.0.1:0,publishers://127.0.0.1:0", "mode": "none", "workers": "1"}
    given = {f"FASTPATH_{name.upper()}": value for name, value in (listen | settings).items()}
    argv = [sys.executable, "-m", "fastpath"]
    done = subprocess.run(argv, cwd=ROOT, env=kept | given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stdout + done.stderr
    [said] = [line for line in done.stderr.splitlines() if line.startswith("fastpath: ")]
    return said.removeprefix("fastpath: ")


def promised(said: str) -> None:
    """The page has these words, but for paths and numbers."""
    text = PAGE.read_text(encoding="utf-8")
    quoted = re.findall(r"`(FASTPATH_\w+: [^`]*)`", text)
    assert len(quoted) == 2
    assert any(re.fullmatch(re.escape(one).replace("…", r"\S+"), said) for one in quoted), said


def test_a_journal(tmp_path: Path) -> None:
    later = Sidecar(journal="interval", data=tmp_path)
    later.command = [sys.executable, "-c", OF_A_LATER_VERSION]
    with later, WirePublisher(later) as publisher:
        publisher.publish(["/upgrade/one", "x"])
    promised(refused(journal="interval", data=str(tmp_path)))


@pytest.mark.redis
def test_data_in_redis() -> None:
    with RedisServer() as redis:
        with Sidecar(engine=redis.url) as sidecar, WirePublisher(sidecar) as publisher:
            publisher.publish(["/upgrade/one", "x"])
        redis.call("HSET", "fastpath:meta", "version", "2")
        promised(refused(engine=redis.url))
