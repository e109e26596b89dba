"""The conformance kit: the JavaScript client holds under Node, and a client that does otherwise does not."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.__main__ import main
from tests.behaviours.driver import Driver, DriverFailed
from tests.behaviours.holding import hold_case
from tests.behaviours.table import EXPECTED, cases
from tests.support.languages import node
from tests.support.sidecar import ROOT

SCRIPT = "tests/behaviours/driver.mjs"
PAGE = ROOT / "docs" / "reference" / "conformance.md"
ANSWERING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({answer}), flush=True)
"""


def counted(output: str) -> dict[str, int]:
    """The last line of a run."""
    return {what: int(number) for number, what in re.findall(r"(\d+) (\w+)", output.splitlines()[-1])}


def program(folder: Path, answer: str) -> list[str]:
    """A driver in Python that gives one answer to everything; ``asked`` is the request."""
    path = folder / "driver.py"
    path.write_text(ANSWERING.replace("{answer}", answer))
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """The JavaScript client's."""
    with Driver([str(node()), str(ROOT / SCRIPT)]) as running:
        yield running


@pytest.mark.browser
def test_the_javascript_client_holds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under Node, by the command of the page: all vectors, and all cases over each transport."""
    monkeypatch.chdir(ROOT)
    (command,) = re.findall(r"^\.venv/bin/python -m tests\.behaviours -- node (\S+)$", PAGE.read_text(), re.MULTILINE)
    assert command == SCRIPT
    status = main(["--", str(node()), command])
    output = capsys.readouterr().out
    assert status == 0, output
    assert counted(output)["held"] > 127 + 3 * len(cases()), output
    assert counted(output) | {"held": 0} == {"held": 0, "failed": 0, "skipped": 0}, output
    assert main(["--only", "snapshot_then_live", "--transports", "websocket", "--", str(node()), command]) == 0
    assert counted(capsys.readouterr().out)["held"] == 1


OTHERWISE: list[tuple[str, dict[str, Any]]] = [
    (key, case)
    for key in EXPECTED
    for _, case in cases()
    if any(key in step for step in case["steps"]) and "transports" not in case.get("options", {})
][::9]
"""Some cases of all kinds of expectation but those that few have."""


@pytest.mark.browser
@pytest.mark.parametrize(("key", "case"), OTHERWISE, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_what_is_otherwise_is_told(driver: Driver, key: str, case: dict[str, Any]) -> None:
    """In a case that expects what it does not do, or does not expect what it does, and at that step."""
    (index, step), *_ = [(index, step) for index, step in enumerate(case["steps"]) if key in step]
    wrong = {"wait": 12345, "closes": False, "connect": "ws://elsewhere/ws"}.get(key, [{"name": "nothing of the kind"}])
    for value in (None, wrong):
        other = copy.deepcopy(case)
        other["steps"][index] = {name: one for name, one in step.items() if name != key}
        if value is not None:
            other["steps"][index][key] = value
        (told, *_) = hold_case(driver, other, ("websocket", "stream", "poll"))
        assert told.startswith(f"step {index} ({step['do']}): {key} is "), told


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("{}", "failed: vector "),
        ('{"json": "", "msgpack": "", "skip": "later"}', "skipped: vectors: later"),
        ("asked.update(json=asked['frame'], msgpack=asked['frame']) or asked", "failed: vector "),
        ("[]", "failed: the answer to {"),
        ("sys.exit(0)", "failed: the driver has ended"),
    ],
    ids=["silent", "skips", "echoes", "no object", "ends"],
)
def test_what_does_nothing_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str, said: str
) -> None:
    assert main(["--", *program(tmp_path, answer)]) == 1
    output = capsys.readouterr().out
    assert output.startswith(said), output
    assert counted(output)["held"] == 0


def test_a_changed_byte_that_goes_unnoticed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a decoder that takes everything for the frame that it has seen last."""
    answer = "last.update(asked) or VECTORS[asked['frame']] if asked['frame'] in VECTORS else VECTORS[last['frame']]"
    vectors = f"""
import glob
from pathlib import Path
last, VECTORS = {{}}, {{}}
for path in sorted(Path({str(ROOT / "tests" / "vectors")!r}).glob("*.json")):
    for one in json.loads(path.read_text()):
        VECTORS[one["json"]] = VECTORS[one["msgpack"]] = {{"json": one["json"], "msgpack": one["msgpack"]}}
"""
    command = program(tmp_path, answer)
    path = Path(command[-1])
    path.write_text(path.read_text().replace("import json, sys\n", f"import json, sys\n{vectors}"))
    assert main(["--part", "vectors", "--", *command]) == 1
    output = capsys.readouterr().out
    assert " is taken for " in output
    assert " becomes " not in output


def test_a_command_that_does_not_start() -> None:
    with pytest.raises(DriverFailed, match="does not start"), Driver(["/nowhere/driver"]):
        pass
