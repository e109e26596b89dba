"""What starting a server to be measured takes: free ports, a core, all the files it may open, its children."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

STOP_SECONDS_MAX = 10


def free_ports(count: int) -> list[int]:
    """Return ports that nobody had a moment ago; they are held together, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def settle(core: int | None) -> Callable[[], None]:
    """Return what a child does before it becomes the server: it takes its core, and as many files as it may open."""

    def before() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})
        open_files_most()

    return before


def open_files_most() -> int:
    """Let this process open as many files as it may; return how many that is."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process, with force if it does not go."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def close_pipes(process: subprocess.Popen[Any]) -> None:
    """Close the ends that this process has, of one that has ended; what is left unwritten is nobody's."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def family(pid: int) -> list[int]:
    """Return a process and what it has started, and so on, from /proc; the process alone where that does not tell."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += family(int(child))
    return found
