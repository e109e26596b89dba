"""Finds and ends the processes that a child left behind when it ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_MAX = 5


def adopt() -> None:
    """Become the parent, from now on, of what a child's death leaves without one (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(known: Collection[int]) -> list[int]:
    """End every child of this process that is not known, and theirs; the pids of those that were still running."""
    ended: list[int] = []
    deadline = time.monotonic() + _SECONDS_MAX
    # What a stray started becomes ours when it dies, so look again until nothing is left.
    while (strays := set(children()) - set(known)) and time.monotonic() < deadline:
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
                done, status = os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue
            if done and os.WIFSIGNALED(status):
                ended.append(pid)
    return ended


def children() -> list[int]:
    """Return the processes whose parent this process is, ended ones included until they are waited for."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:
            continue  # it ended meanwhile
        # "pid (name) state ppid …", and the name may hold anything
        if int(text.rpartition(")")[2].split()[1]) == os.getpid():
            found.append(int(entry.parent.name))
    return found
