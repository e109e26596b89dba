"""What results say of themselves: the revision above all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fastpath.bench.machine.description import machine, revision, revision_of
from fastpath.bench.report.documents import circumstances
from fastpath.bench.report.report import load
from fastpath.bench.scenarios.result import write
from tests.support.bench.results import RESULTS, run


def git(folder: Path, *words: str) -> str:
    """What git says in a folder, with no configuration but this."""
    who = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who |= {f"GIT_{role}_{part}": "a@b" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    return subprocess.run(
        ["git", *words], cwd=folder, env=os.environ | who, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one file."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_text("1\n")
    git(folder, "add", "code.py")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "tag", "v1")
    return folder


def test_the_revision_of_a_checkout(checkout: Path) -> None:
    """Its hash, whatever tags there are; new files that git does not know change nothing."""
    head = git(checkout, "rev-parse", "--short=12", "HEAD")
    (checkout / "var").mkdir()
    (checkout / "var" / "result.json").write_text("{}")
    assert revision_of(checkout) == head
    (checkout / "code.py").write_text("2\n")
    assert revision_of(checkout) == f"{head}-dirty"


def test_where_there_is_none(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No git, no checkout, or only one of something else around it."""
    installed = checkout / "site-packages"
    installed.mkdir()
    assert revision_of(installed) == revision_of(tmp_path) == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision_of(checkout) == "unknown"


def test_results_carry_it_and_tables_show_it(tmp_path: Path) -> None:
    """Each result its own, and what was measured once is said."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write(old, RESULTS)
    write(new, [run("F2", 1.0) | {"machine": machine()}])
    assert machine()["revision"] == revision()
    told = dict(circumstances(load([old, new])))
    assert told["Revision"] == f"0ld; {revision()}"
    assert told["Single runs"] == "F10, F1 beside others, F2"


def test_the_interpreter_is_described() -> None:
    assert machine()["python_build"] in ("optimised", "not optimised", "not known")
