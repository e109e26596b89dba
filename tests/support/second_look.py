"""In CI, what failed is run again by itself when all others are done: a busy machine fails no run, a fault does.

As a plugin of pytest it writes down what has failed; ``python -m tests.support.second_look`` then runs each of these
tests in a process of its own, with nothing beside it, at most LOOKS times. Where all pass, the run is green and names
them: ``UNSTABLE tests/…::test…``, once when it is known and once more as the last lines, with both logs below
``test-results/unstable``. There is no second look, and the run is red, when one of them

* is pure (tests/support/pure.py): it cannot be the machine;
* fails with BrokenPromise (tests/support/promises.py): no machine is an excuse for it;
* is one of more than UNSTABLE_MAX.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .no_skips import IN_CI
from .promises import BrokenPromise
from .pure import is_pure

LOOKS = 2
"""A test that failed may pass the first or the second time that it is alone."""
UNSTABLE_MAX = 5
"""So many unstable tests at most: with more, something is wrong with all of them."""
FOLDER = "TEST_RESULTS"
"""The variable that names the folder of all this; ``test-results`` if it is not set."""
PROMISE = re.compile(rf"^E .*\b{BrokenPromise.__name__}\b", re.MULTILINE)
"""Also where another process tells of it, a checker or a suite within a test."""


def results() -> Path:
    """The folder of what is written here."""
    return Path(os.environ.get(FOLDER, "test-results"))


class Failure(NamedTuple):
    """One test that failed."""

    nodeid: str
    target: str
    """How pytest is asked for it: its file's whole path, and its name."""
    promise: bool
    log: str

    @property
    def hopeless(self) -> str:
        """Why there is no second look; empty if there is one."""
        if self.promise:
            return "a promise of the product was broken"
        return "it starts no process and opens no socket" if is_pure(self.nodeid) else ""


class Recorder:
    """Writes what failed to ``failed.jsonl``, a line for each test."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root = root
        self._path = path
        self._found: dict[str, Failure] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A set-up, a test or its end; from all processes of `pytest -n`."""
        if not report.failed:
            return
        sections = "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
        before = self._found.get(report.nodeid)
        self._found[report.nodeid] = Failure(
            report.nodeid,
            str(self._root / report.nodeid),
            getattr(report, "broken_promise", False) or bool(before and before.promise),
            (before.log if before else "") + report.longreprtext + sections + "\n",
        )

    def pytest_sessionfinish(self) -> None:
        """Add to what an earlier part of the run has written."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(failure) + "\n" for failure in self._found.values())


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In the process that hears of every test."""
    if IN_CI and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.rootpath, results() / "failed.jsonl"), "second look")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure says whether it is a broken promise."""
    report: Any = yield
    if report.failed and call.excinfo is not None:
        told = PROMISE.search(report.longreprtext) is not None
        report.broken_promise = told or any(isinstance(one, BrokenPromise) for one in _all_of(call.excinfo.value))
    return report


def _all_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, what it came from, and those of a group."""
    ahead, seen = [error], set()
    while ahead:
        one = ahead.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            ahead += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _again(failure: Failure, log: Path) -> bool:
    """Run it alone in a fresh process; whether it passed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", failure.target]
    # Its failures are these here, and not added to those that are looked at.
    with log.open("wb") as file:
        done = subprocess.run(
            command,
            env=os.environ | {FOLDER: str(log.parent / "alone")},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0


def _look(failure: Failure) -> str:
    """Run it again, at most LOOKS times; empty if it passed, else the log of its last failure."""
    folder = results() / "unstable" / re.sub(r"[^\w.-]+", "-", failure.nodeid)[-150:]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "failed.log").write_text(failure.log, encoding="utf-8", errors="replace")
    log = folder / "alone.log"
    for _ in range(LOOKS):
        if _again(failure, log):
            return ""
        text = log.read_text(encoding="utf-8", errors="replace")
        if PROMISE.search(text):
            break
    return text


def main() -> int:
    """Look again at what is written down; 0 if all of it passed, 1 if not."""
    path = results() / "failed.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    failures = list({one.nodeid: one for one in (Failure(*json.loads(line)) for line in lines)}.values())
    if not failures:
        print("RED: the run failed, and no test did", flush=True)
        return 1
    hopeless = [failure for failure in failures if failure.hopeless]
    for failure in hopeless:
        print(f"RED {failure.nodeid}: {failure.hopeless}", flush=True)
    if len(failures) > UNSTABLE_MAX:
        print(f"RED: {len(failures)} tests failed, more than {UNSTABLE_MAX}", flush=True)
    if hopeless or len(failures) > UNSTABLE_MAX:
        return 1
    unstable = []
    for failure in failures:
        if log := _look(failure):
            print(log)
            print(f"RED {failure.nodeid}: it failed alone, too", flush=True)
            return 1
        unstable.append(f"UNSTABLE {failure.nodeid}")
        print(unstable[-1], flush=True)
    print("-- passed alone, in a second look; the logs are below", results() / "unstable")
    print("\n".join(unstable), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
