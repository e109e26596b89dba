"""The checker is checked: a node that loses, doubles, swaps or hides a message fails a run, which names it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from fastpath.client.publisher.publisher import Publisher
from tests.support.forked import COMMAND
from tests.support.sidecar import ROOT, Sidecar

KINDS = {
    "bug-lose": {"lost"},
    "bug-double": {"doubled"},
    "bug-swap": {"reordered"},
    "bug-hide": {"false_recovery"},
    "bug-forget": {"unannounced"},
    "bug-anew": {"doubled"},
}


HEALED = {"bug-hide"}
"""A client that sees the numbers jump asks again, and gets what was hidden or is told that it stands anew: where it met
such a one, a bug is planted anew."""


def run(name: str) -> tuple[int, dict[str, Any], str]:
    """One fault, once: what the process ended with, its results, its log."""
    command = [sys.executable, "-m", "tests.chaos", "run", name, "--short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_one_message_gone_wrong_fails_the_run_and_is_named(name: str) -> None:
    for _ in range(8):
        code, result, log = run(name)
        if result["false_recovery"] or name not in HEALED:
            break
    assert code == 1, log
    assert result["injections"] == {name: 1}, log
    assert {
        kind for kind in ("lost", "doubled", "reordered", "unannounced", "false_recovery") if result[kind]
    } >= KINDS[name], log
    assert len(set(re.findall(rf"{'|'.join(KINDS[name])}: (p0:\d+) on /chaos/", log))) in (1, 2), log


@pytest.mark.slow
def test_without_a_bug_nothing_is_found() -> None:
    """What the others found was the bug, not the checker's own."""
    code, result, log = run("client-cut")
    assert code == 0, log
    assert result["delivered"] > 1000


def test_the_product_has_no_failpoint() -> None:
    sidecar = Sidecar(faults="on", faults_do="kill:write:1")
    sidecar.command = COMMAND
    with sidecar, Publisher(sidecar.publisher_url) as publisher:
        assert publisher.publish("/a/a", "x") == 1
        assert publisher.publish("/a/a", "y") == 2
        assert "deliberate fault" not in sidecar.log
