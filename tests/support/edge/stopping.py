"""A sidecar that stands still for a while."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.sidecar import Sidecar
from tests.support.waiting import until


def state(sidecar: Sidecar) -> str:
    """What the kernel says of the process: ``S`` it waits, ``R`` it runs, ``T`` it is stopped."""
    return Path(f"/proc/{sidecar.pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def stopped(sidecar: Sidecar, seconds: float) -> Iterator[None]:
    """The process does not run for so long, from the first line of the block on, and is stopped while it waits for
    sockets and clocks: that wait ends with no socket told when its time is over, so that the clocks come first."""
    until(lambda: state(sidecar) == "S")
    os.kill(sidecar.pid, signal.SIGSTOP)
    try:
        until(lambda: state(sidecar) == "T")  # or it could still read what comes now
        yield
        subprocess.run(["sleep", f"{seconds}"], check=True)  # as long as it is to stand still
    finally:
        os.kill(sidecar.pid, signal.SIGCONT)
