"""Tries the wheel on each version of Python and Django that it is for: `make matrix`, ARGS="--python 3.13 --write".

For each pair the wheel is installed into a new environment by pip, and the tests of a reader's project run against it
(tests/distribution/test_base.py). Interpreters: those of PATH, of ~/.pyenv and of MATRIX_PYTHONS (paths with colons).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.installed import install  # noqa: E402 - of this checkout
from tests.support.wheel import build  # noqa: E402

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
DJANGOS = {"5.2": (3, 10), "6.0": (3, 12), "6.1": (3, 12)}
"""Versions of Django, and the oldest Python that each takes; the last one is the newest that the metadata allows."""

TESTS = ("tests/distribution/test_base.py", "tests/realtime/publishing/test_tasks.py")
"""Files of tests: the first are those of a reader's project, the second those of Django's tasks."""

PAGE = ROOT / "docs/develop/django.md"
BEGIN, END = "<!-- made by make matrix -->\n", "<!-- end -->\n"
ABSENT = "no interpreter here"


def version(interpreter: str) -> tuple[int, ...]:
    """Return the version of a Python; empty if it does not run."""
    script = "import sys, venv, ensurepip; print(*sys.version_info[:3])"
    done = subprocess.run([interpreter, "-c", script], capture_output=True, text=True)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()


def interpreters() -> dict[tuple[int, ...], str]:
    """Return a working interpreter of each version that can be found here."""
    candidates = [path for path in os.environ.get("MATRIX_PYTHONS", "").split(":") if path]
    for major, minor in PYTHONS:
        candidates += sorted(map(str, Path.home().glob(f".pyenv/versions/{major}.{minor}.*/bin/python")))
        candidates += filter(None, [shutil.which(f"python{major}.{minor}")])
    found: dict[tuple[int, ...], str] = {}
    for candidate in candidates:
        if runs := version(candidate):
            found.setdefault(runs[:2], candidate)
    return found


def tried(interpreter: str, django: str, wheel: Path) -> str:
    """Return what a cell says: the version of Django with which all passed, or what did not."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        try:
            python = install(Path(folder) / "venv", f"{wheel}[test]", f"Django=={django}.*", interpreter=interpreter)
        except AssertionError as error:
            sys.stderr.write(f"{error}\n")
            return "cannot be installed"
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
        done = subprocess.run(
            [*argv, "-k", "reader or tasks_publish"],
            cwd=ROOT,
            env=os.environ | {"INSTALLED_PYTHON": python, "TMPDIR": folder},
            capture_output=True,
            text=True,
        )
        if done.returncode or "passed" not in done.stdout:
            sys.stderr.write(done.stdout + done.stderr)
            return "failed"
        script = "import django; print(django.__version__)"
        return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def table(rows: dict[str, list[str]], command: str) -> str:
    """Return the table as the manual has it, with what made it."""
    argv = ["git", "describe", "--always", "--dirty"]
    revision = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    lines = [
        "| Python | " + " | ".join(f"Django {one}" for one in DJANGOS) + " |",
        "|---" * (len(DJANGOS) + 1) + "|",
        *(f"| {python} | " + " | ".join(cells) + " |" for python, cells in rows.items()),
        "",
        f"`{command}` at revision {revision}, {datetime.now(UTC):%Y-%m-%d}; — is a pair that Django has not.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Try the pairs; return 1 if one failed. An interpreter that is not here is named, and is no failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", metavar="X.Y", help="only these")
    parser.add_argument("--django", action="append", metavar="X.Y", help="only these")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    found, rows = interpreters(), {}
    with tempfile.TemporaryDirectory(prefix="matrix-dist-") as folder:
        wheel = build(Path(folder))
        for wanted in PYTHONS:
            name = ".".join(map(str, wanted))
            if arguments.python and name not in arguments.python:
                continue
            label = ".".join(map(str, version(found[wanted]))) if wanted in found else name
            rows[label] = []
            for django, oldest in DJANGOS.items():
                if wanted not in found:
                    cell = ABSENT
                elif wanted < oldest:
                    cell = "—"
                elif arguments.django and django not in arguments.django:
                    cell = "not run"
                else:
                    cell = tried(found[wanted], django, wheel)
                rows[label].append(cell)
                print(f"Python {label}, Django {django}: {cell}", file=sys.stderr, flush=True)
    text = table(rows, "make matrix")
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
        PAGE.write_text(pattern.sub(lambda _: f"{BEGIN}\n{text}\n{END}", page), encoding="utf-8")
    return int(any("failed" in cells or "cannot be installed" in cells for cells in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
