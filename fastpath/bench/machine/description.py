"""What a result says of itself: the machine and the interpreter it was measured on, and the revision of the code."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

from fastpath.interpreter import python_build

ROOT = Path(__file__).parents[3]

UNKNOWN = "unknown"


def machine() -> dict[str, Any]:
    """Return what the measurement ran on, and what ran."""
    cpu = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return {
        "cpu": cpu or platform.processor() or UNKNOWN,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_build": python_build(),
        "revision": revision(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


@cache
def revision() -> str:
    """Return the revision that this process runs, as it was when first asked for: see ``revision_of``."""
    return revision_of(ROOT)


def revision_of(root: Path) -> str:
    """Return git's name of what is checked out in a folder, with ``-dirty`` where a file that git knows is another.

    ``unknown`` where there is no git, or the folder is no checkout: one around it does not count, since a package that
    is installed into a project has not the project's revision.
    """
    around = os.environ | {"GIT_CEILING_DIRECTORIES": str(root.resolve().parent)}
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=root, env=around, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return done.stdout.strip() if done.returncode == 0 else UNKNOWN
