"""Of several processes one does the work: who that is, as a text in a row, and whether its process has ended."""

from __future__ import annotations

import os
import secrets
import uuid
from pathlib import Path


def new_holder() -> str:
    """Return what this process writes where it takes the work over; no other process, and no later call, has the
    same."""
    return f"{_machine()} {os.getpid()} {secrets.token_hex(8)}"


def has_ended(holder: str) -> bool:
    """Return True if that process is known not to run any more; of one on another machine nothing is known."""
    machine, _, rest = holder.partition(" ")
    pid = rest.partition(" ")[0]
    return machine == _machine() and not (pid.isdecimal() and _runs(int(pid)))


def _machine() -> str:
    """Return where a process's number means something: this start of the machine, this container."""
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{started}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x}"


def _runs(pid: int) -> bool:
    if pid == os.getpid() or os.name != "posix":  # of one that had the same number, or of this process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
