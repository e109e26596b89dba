"""The checker is checked: a node that loses, doubles, swaps or hides a message fails a run, which names the message."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fastpath.client.publisher.publisher import Publisher
from tests.chaos.bugs import BUGS
from tests.support.sidecar import ROOT, Sidecar

SOUND = "client-cut"
KINDS = {
    "bug-lose": {"lost"},
    "bug-double": {"doubled"},
    "bug-swap": {"reordered"},
    "bug-hide": {"false_recovery"},
}


CLIENTS = 5
HEALED = {"bug-hide"}
"""A client that sees the numbers jump asks again, and gets what was hidden: where it met such a one, a bug is planted
anew."""


def start(name: str) -> subprocess.Popen[str]:
    """A run of one fault, once."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", "run", name, "--short"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All at the same time: each waits more than it works."""
    commands = {name: start(name) for name in (*(bug.name for bug in BUGS), SOUND)}
    yield commands
    for command in commands.values():
        command.kill()
        command.communicate()


@pytest.mark.parametrize("name", KINDS)
def test_one_message_gone_wrong_fails_the_run_and_is_named(name: str, runs: dict[str, subprocess.Popen[str]]) -> None:
    output, log = runs[name].communicate(timeout=60)
    result = json.loads(output.splitlines()[-1])
    for _ in range(4):
        if result["delivered"] < CLIENTS * result["published"] or name not in HEALED:
            break
        runs[name] = start(name)
        output, log = runs[name].communicate(timeout=60)
        result = json.loads(output.splitlines()[-1])
    assert runs[name].returncode == 1, log
    assert result["injections"] == {name: 1}
    assert {
        kind for kind in ("lost", "doubled", "reordered", "unannounced", "false_recovery") if result[kind]
    } >= KINDS[name], log
    assert len(set(re.findall(rf"{'|'.join(KINDS[name])}: (p0:\d+) on /chaos/", log))) in (1, 2), log


def test_without_a_bug_nothing_is_found(runs: dict[str, subprocess.Popen[str]]) -> None:
    """What the others found was the bug, not the checker's own."""
    output, log = runs[SOUND].communicate(timeout=60)
    assert runs[SOUND].returncode == 0, log
    assert json.loads(output.splitlines()[-1])["delivered"] > 1000


@pytest.mark.parametrize(
    "settings", [{"faults": "on"}, {"faults_do": "kill:write:1"}, {"faults": "1", "faults_do": "kill:write:1"}]
)
def test_one_variable_alone_installs_nothing(settings: dict[str, str]) -> None:
    with Sidecar(**settings) as sidecar, Publisher(sidecar.publisher_url) as publisher:
        assert publisher.publish("/a/a", "x") == 1
        assert publisher.publish("/a/a", "y") == 2
        assert "deliberate fault" not in sidecar.log
