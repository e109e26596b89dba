"""What `make test` makes of a test that fails in CI: it has a second look, alone, unless nothing can excuse it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.support.groups import APART, scope_of, spread
from tests.support.processes import without_coverage
from tests.support.second_look import LOOKS, UNSTABLE_MAX
from tests.support.sidecar import ROOT

HEAD = """
import random
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.promises import BrokenPromise, kept


def fail(name, times, error=AssertionError):
    seen = Path(__file__).with_name(name)
    seen.open("a").write(f"{random.random()}\\n")
    if len(seen.read_text().splitlines()) <= times:
        raise error("so often")
"""


@dataclass
class Ended:
    """How a run ended, and where it was."""

    folder: Path
    code: int
    output: str

    def times(self, name: str) -> int:
        """How often that test was run."""
        return len(self.chosen(name))

    def chosen(self, name: str) -> list[str]:
        """What it chose by chance, each time."""
        return (self.folder / name).read_text().splitlines()


def run(folder: Path, **files: str) -> Ended:
    """Write these files of tests and run them in CI, as `make test` does."""
    for name, tests in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + tests)
    # No Django, no Hypothesis: of what is installed, only what the runs are about.
    plugins = [
        "-p xdist",
        *(f"-p tests.support.{name}" for name in ("no_skips", "seeds", "pure", "second_look", "sidecar_logs")),
    ]
    where = f"-c {ROOT}/pyproject.toml --rootdir {folder} -o addopts= --import-mode=importlib -rf"
    done = subprocess.run(
        ["tools/run_tests.sh", "not slow", str(folder)],
        cwd=ROOT,
        env=without_coverage()
        | {"CI": "true", "TEST_PROCESSES": "1", "SEED": "7", "TEST_RESULTS": str(folder / "results")}
        | {"PYTEST_ADDOPTS": " ".join((*plugins, where)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ended(folder, done.returncode, done.stdout)


def test_what_passes_alone_is_unstable_and_the_run_is_green(tmp_path: Path) -> None:
    """A set-up that fails is a failure as well; what failed beside a sidecar shows its log."""
    tests = """
from tests.support.sidecar import Sidecar
from tests.support.waiting import until

def test_once():
    fail("once", 1)

@pytest.mark.parametrize("name", ["a b", "c::d"])
def test_twice(name):
    fail("twice", 2) if name == "a b" else None

def test_that_is_well():
    fail("well", 0)

@pytest.fixture
def node():
    fail("set-up", 1)

def test_beside_it(node):
    pass

@pytest.fixture
def sidecar():
    with Sidecar() as running:
        yield running

def test_beside_a_sidecar(sidecar):
    until(lambda: sidecar.log)  # a thread of it writes
    fail("seen", 1)
"""
    ended = run(tmp_path, test_some=tests)
    assert ended.code == 0, ended.output
    lines = ended.output.splitlines()
    names = ("once", "twice[a b]", "beside_it", "beside_a_sidecar")
    assert lines[-4:] == [f"UNSTABLE test_some.py::test_{name}" for name in names]
    assert all(lines[:-4].count(line) == 1 for line in lines[-4:]), "when it is known, and last of all"
    assert [ended.times(name) for name in ("once", "twice", "well", "set-up")] == [2, 3, 1, 2]
    assert len({*ended.chosen("once")}) == 1, "by chance, but the same each time"
    logs = tmp_path / "results" / "unstable" / "test_some.py-test_once"
    assert "AssertionError: so often" in (logs / "failed.log").read_text()
    assert "SEED=7" in (logs / "failed.log").read_text()
    assert "1 passed" in (logs / "alone.log").read_text()
    [log] = re.findall(r"^-+ Log of the sidecar fp-\w+ -+\n(.+)$", ended.output, re.MULTILINE)
    assert "fastpath" in log


def test_what_fails_alone_too_is_red(tmp_path: Path) -> None:
    ended = run(tmp_path, test_some='def test_always():\n    fail("always", 99)\n')
    assert ended.code == 1
    assert ended.times("always") == 1 + LOOKS
    assert ended.output.splitlines()[-1] == "RED test_some.py::test_always: it failed alone, too"


def test_nothing_excuses_a_broken_promise_or_what_is_pure_and_a_skip_is_a_failure(tmp_path: Path) -> None:
    """They have no second look, and nothing has one beside them."""
    promises = """
def test_itself():
    fail("itself", 1, BrokenPromise)

def test_on_the_way_out():
    try:
        fail("out", 1, BrokenPromise)
    finally:
        assert False, "on the way out"

def test_in_a_group_of_tasks():
    raise ExceptionGroup("tasks", [BrokenPromise("2 came before 1")]) if not fail("group", 0) else 0

def test_told_by_a_process():
    fail("told", 0)
    assert False, "the checker said:\\ntests.support.promises.BrokenPromise: lost"

def test_other():
    fail("other", 1)

def test_that_skips():
    pytest.skip("nothing is here to test with")
"""
    pure = """
def test_core():
    fail("core", 1)

def test_process():
    subprocess.run(["true"], check=True)

def test_connection():
    socket.socket().connect(("127.0.0.1", 9))

def test_server():
    socket.create_server(("", 0))
"""
    ended = run(tmp_path, test_some=promises, tests__core__test_pure=pure)
    assert ended.code == 1
    names = ("itself", "on_the_way_out", "in_a_group_of_tasks", "told_by_a_process")
    wanted = {f"RED test_some.py::test_{name}: a promise of the product was broken" for name in names}
    at = "RED tests/core/test_pure.py::test_"
    names = ("core", "process", "connection", "server")
    wanted |= {f"{at}{name}: it starts no process and opens no socket" for name in names}
    assert {line for line in ended.output.splitlines() if line.startswith(("RED ", "UNSTABLE"))} == wanted
    assert {ended.times(name) for name in ("itself", "out", "group", "told", "other", "tests/core/core")} == {1}
    for name in names[1:]:
        told = (
            f"tests/core/test_pure.py::test_{name} does .*, and stands in tests/support/pure.py as a test that does not"
        )
        assert re.search(told, ended.output)
    assert "skipped, which fails in CI: Skipped: nothing is here to test with" in ended.output


def test_a_promise_that_breaks_in_the_second_look_has_no_third(tmp_path: Path) -> None:
    ended = run(
        tmp_path, test_some='def test_it():\n    fail("seen", 1)\n    fail("again", 0)\n    kept(False, "lost")\n'
    )
    assert (ended.code, ended.times("seen"), ended.times("again")) == (1, 2, 1)


def test_too_many_are_red(tmp_path: Path) -> None:
    tests = f'@pytest.mark.parametrize("n", range({UNSTABLE_MAX + 1}))\ndef test_one(n):\n    fail(f"n{{n}}", 1)\n'
    ended = run(tmp_path, test_some=tests)
    assert ended.code == 1
    assert {ended.times(f"n{n}") for n in range(UNSTABLE_MAX + 1)} == {1}
    assert f"RED: {UNSTABLE_MAX + 1} tests failed, more than {UNSTABLE_MAX}" in ended.output


def test_a_file_that_cannot_be_read_is_red(tmp_path: Path) -> None:
    ended = run(tmp_path, test_some="import nothing_of_this_name\n")
    assert ended.code not in (0, 5)
    assert "UNSTABLE" not in ended.output


def test_a_choice_of_nothing_is_an_error(tmp_path: Path) -> None:
    assert run(tmp_path, test_some="").code == 5


def test_the_tests_of_a_suite_report_by_their_own_names(tmp_path: Path) -> None:
    """And a promise that breaks within one is one, whatever words the others have."""
    inner = tmp_path / "inner" / "suite_inner.py"
    inner.parent.mkdir()
    inner.write_text(
        HEAD + "def test_good():\n    pass\n\ndef test_bad():\n    # No BrokenPromise.\n    assert 'well' == ''\n\n"
        "def test_lost():\n    kept(False, '2 is lost')\n"
    )
    plain = f"-c {ROOT}/pyproject.toml --rootdir {inner.parent} -o addopts= --import-mode=importlib"
    plugins = "-p tests.support.second_look -p no:django"
    tests = "from tests.support.suites import run_suite\n"
    for name, chosen in (("bad", "test_bad or test_good"), ("lost", "test_lost"), ("none", "nothing")):
        tests += f"def test_{name}(subtests):\n    run_suite(subtests, "
        tests += f"{[*f'{inner} {plain} {plugins} -k'.split(), chosen]!r}, 'realtime.settings')\n"
    ended = run(tmp_path / "outer", test_suites=tests)
    assert ended.code == 1, ended.output
    red = [line for line in ended.output.splitlines() if line.startswith("RED")]
    assert red == ["RED test_suites.py::test_lost: a promise of the product was broken"], ended.output
    for name, within in (("bad", True), ("lost", True), ("good", False)):
        assert (f"SUBFAILED[suite_inner.py::test_{name}]" in ended.output) == within, ended.output
    assert ended.output.count("it ended with 5, and no test of it failed") >= 1


def test_what_starts_much_begins_early_and_not_beside_its_like() -> None:
    """Each file once, as a whole."""
    kinds = ("spark", "postgres", "redis", "browser")
    heavy = [f"tests/{kind}/test_{n}.py::test_a" for kind in kinds for n in range(4)]
    light = [f"tests/core/test_{n}.py::test_{name}" for n in range(400) for name in "ab"]
    found = spread(scope_of(nodeid) for nodeid in light + heavy)
    assert sorted(found) == sorted({scope_of(nodeid) for nodeid in light + heavy})
    places = [(index, scope) for index, scope in enumerate(found) if "/core/" not in scope]
    firsts = {kind: next(index for index, scope in places if f"/{kind}/" in scope) for kind in kinds}
    assert firsts == {kind: index * (APART + 1) for index, kind in enumerate(kinds)}
    assert all(after[0] - before[0] > 5 for before, after in pairwise(places))
    assert places[-1][0] < 0.7 * len(found)
    assert spread(["tests/core/test_a.py"]) == ["tests/core/test_a.py"]
    assert spread(["tests/redis/test_b.py", "tests/redis/test_a.py"]) == [
        "tests/redis/test_b.py",
        "tests/redis/test_a.py",
    ]
