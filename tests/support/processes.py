"""Which processes a process has started, whether any is left, and what they inherit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def without_coverage() -> dict[str, str]:
    """The variables for a program of which it matters what it loads or writes: measuring it would be seen there."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVER")}


def descendants(pid: int) -> set[int]:
    """The running processes below ``pid``, at any depth."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(entry)
        if fields and fields[0] != "Z":
            parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    while more := {one for one, parent in parents.items() if parent in found | {pid}} - found:
        found |= more
    return found


def running(pids: set[int]) -> set[int]:
    """Those that have not ended; one that ended and was not waited for has."""
    return {pid for pid in pids if (_fields(Path(f"/proc/{pid}/stat")) or ["Z"])[0] != "Z"}


def command_line(pid: int) -> bytes:
    """Its arguments, each ended by a zero byte; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Send a signal to each that is still there: helpers of a program come and go meanwhile."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _fields(stat: Path) -> list[str]:
    """``state ppid …`` of "pid (name) state ppid …", where the name may hold anything; empty if it is gone."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []
