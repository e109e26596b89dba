"""An environment with the wheel and what it asks for, as pip installs it from its registry, and what that weighs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SIZES = """
from importlib.metadata import distributions
for one in distributions():
    files = [file.locate() for file in one.files or ()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.is_file())
    print(one.metadata["Name"].lower(), size)
"""
"""Of each distribution in bytes, less what Python compiles of it, which nobody downloads."""


def install(folder: Path, *wanted: str, interpreter: str = sys.executable, options: tuple[str, ...] = ()) -> str:
    """Make an environment with what is wanted, as ``pip install`` takes it; the path of its interpreter."""
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True, capture_output=True, timeout=200)
    python = str(folder / "bin" / "python")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    argv = [python, "-m", "pip", "install", "-q", *options, *wanted]
    done = subprocess.run(argv, env=kept, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def sizes(python: str) -> dict[str, int]:
    """What each distribution in an environment weighs, in bytes."""
    done = subprocess.run([python, "-I", "-c", SIZES], capture_output=True, text=True, check=True, timeout=100)
    return {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
