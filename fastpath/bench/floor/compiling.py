"""Compiles the floor once, if this machine has a C compiler."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from fastpath.core.protocol.errors import FastpathError

SOURCE = Path(__file__).with_name("floor.c")
COMPILERS = ("cc", "gcc", "clang")


class FloorError(FastpathError):
    """The floor cannot be had; the text says why and what to do."""


def compiled() -> str:
    """Return the program's path, in a folder of this user's below the system's temporary one; raise FloorError."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise FloorError(f"no C compiler ({', '.join(COMPILERS)}): give --floor PROGRAM, compiled from {SOURCE}")
    version = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"fastpath-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise FloorError(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")
    program = folder / f"floor-{version}"
    if not program.exists():
        part = folder / f"floor-{version}.{os.getpid()}"
        done = subprocess.run([compiler, "-O2", "-o", part, SOURCE], capture_output=True, text=True, check=False)
        if done.returncode:
            raise FloorError(f"{compiler} cannot compile {SOURCE}: {done.stderr[-400:]}")
        part.replace(program)
    return str(program)
