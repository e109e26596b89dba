"""An archive of Spark's classes, which the JVM of the demonstration maps instead of loading and verifying each.

`python -m spark.support.classes` makes it where there is none: that takes two to three times as long as a start of the
demonstration, once for each Spark and Java, and from then on a start needs half the CPU time. With `--behind` it waits
until a demonstration that starts now has come up, and takes what that leaves of the cores. Java calls it class data
sharing. An archive that does not fit the JVM or its class path is passed over by the JVM itself.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark

from spark.java import find_java_home

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Options by which a JVM says nothing on standard output of what does not fit the archive."""
MAKE_SECONDS_MAX = 600
POLL_SECONDS = 0.5
BEHIND_SECONDS = 60.0
"""Seconds after which a demonstration has come up, also on a slow machine."""
LOWEST = 19
"""Niceness of a process that takes what others leave."""
OPTION = "spark.driver.extraJavaOptions"


def path(home: Path | None = None) -> Path:
    """Return where the archive of this Spark and Java is, or would be: in this user's folder for caches."""
    java = home or find_java_home()
    jars = Path(pyspark.__file__).parent / "jars"
    about = f"{pyspark.__version__} {jars} {jars.stat().st_mtime_ns} {java} {(java / 'bin/java').stat().st_mtime_ns}"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "fastpath" / f"spark-{hashlib.sha256(about.encode()).hexdigest()[:16]}.jsa"


def options() -> str:
    """Return the Java options that use the archive; empty where there is none that this user alone can write."""
    try:
        archive = path()
        known = archive.lstat()
    except (OSError, RuntimeError):  # no archive, no home, no Java: a start without is what there was before
        return ""
    own = stat.S_ISREG(known.st_mode) and known.st_uid == os.getuid() and not known.st_mode & 0o022
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if own and " " not in str(archive) else ""


def make(wanted: Callable[[], bool] = lambda: True) -> bool:
    """Make the archive, unless it is there, by a run of the demonstration beside a sidecar of its own; False if not.

    Given up, with all that was started, when it is `wanted` no more.
    """
    archive = path()
    if archive.exists():
        return False
    archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as folder:
        part = Path(folder) / archive.name
        process = subprocess.Popen(
            [sys.executable, "-m", "spark.bench.classes", str(part)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + MAKE_SECONDS_MAX
        try:
            while process.poll() is None:
                if not wanted() or time.monotonic() > deadline:
                    return False
                time.sleep(POLL_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not part.exists():
            return False
        part.chmod(0o600)
        part.replace(archive)
    return True


def main(words: Sequence[str] | None = None) -> int:
    """Make the archive where there is none, and say so."""
    parser = argparse.ArgumentParser(prog="python -m spark.support.classes", description=__doc__)
    parser.add_argument(
        "--behind",
        type=int,
        metavar="PID",
        help=f"wait for {BEHIND_SECONDS:g} s, then make it at the lowest priority, silently, and give up when that "
        "process ends, which has started this one",
    )
    options = parser.parse_args(words)
    try:
        is_there = path().exists()
    except (OSError, RuntimeError):  # no Java: whoever needs it says so
        return 0
    if is_there:
        return 0
    if options.behind is not None:
        _make_behind(options.behind)
        return 0
    sys.stdout.write("preparing Spark's classes, once: the demonstration starts in half the time then\n")
    sys.stdout.flush()
    if not make():
        sys.stderr.write("they could not be prepared; it starts without\n")
    return 0


def _make_behind(parent: int) -> None:
    begin = time.monotonic() + BEHIND_SECONDS

    def wanted() -> bool:
        return os.getppid() == parent

    while time.monotonic() < begin:
        if not wanted():
            return
        time.sleep(POLL_SECONDS)
    os.nice(LOWEST)
    make(wanted)


if __name__ == "__main__":
    sys.exit(main())
