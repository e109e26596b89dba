"""Load processes: forked, counted in shared memory, each with one answer in the end."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from typing import Any

from fastpath.core.protocol.errors import FastpathError

from .sockets import BenchError

GOING, MEASURING, STOP = range(3)
"""Wishes of the parent to all processes."""


class Post:
    """One process's view: where it counts, and what the parent wants."""

    def __init__(self, shared: memoryview, number: int, slots: int) -> None:
        self.number = number
        self._shared = shared
        self._at = number * slots
        self._parent = os.getpid()

    def tell(self, slot: int, value: int) -> None:
        """Count something, for the parent to see."""
        self._shared[self._at + slot] = value

    @property
    def wanted(self) -> int:
        """GOING, MEASURING or STOP; STOP also when the parent is gone."""
        return self._shared[-1] if os.getppid() == self._parent else STOP


Work = Callable[[Post], dict[str, Any]]
"""Function that a process runs until it is told to stop; its answer can be written as JSON."""


class Team:
    """``count`` processes with ``slots`` counters each; forked, they share the program's memory and stay small."""

    def __init__(self, count: int, slots: int) -> None:
        self.count = count
        self._slots = slots
        self._shared = memoryview(mmap.mmap(-1, 8 * (slots * count + 1))).cast("q")
        self._pipes: list[int] = []
        self._pids: list[int] = []

    def start(self, work: Work) -> None:
        """Fork all processes."""
        for number in range(self.count):
            self._fork(work, Post(self._shared, number, self._slots))

    def want(self, state: int) -> None:
        """Tell all what to do."""
        self._shared[-1] = state

    def total(self, slot: int) -> int:
        """Return one counter, added up over all processes."""
        return sum(self._shared[self._slots * number + slot] for number in range(self.count))

    @property
    def running(self) -> bool:
        """True if none has ended."""
        seen = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return all(os.waitid(os.P_PID, pid, seen) is None for pid in self._pids)

    def collect(self) -> list[dict[str, Any]]:
        """Stop all processes; return their answers. Raises BenchError with what one says that failed."""
        self.want(STOP)
        pipes, self._pipes = self._pipes, []
        answers = [_read_all(pipe) for pipe in pipes]
        self.close()
        found = [json.loads(answer or b'{"error": "a load process was killed"}') for answer in answers]
        for answer in found:
            if "error" in answer:
                raise BenchError(answer["error"])
        return found

    def close(self) -> None:
        """Stop all processes and wait for their ends."""
        self.want(STOP)
        for pipe in self._pipes:
            _read_all(pipe)
        for pid in self._pids:
            os.waitpid(pid, 0)
        self._pids, self._pipes = [], []

    def _fork(self, work: Work, post: Post) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            self._pids.append(pid)
            self._pipes.append(reading)
            return
        answer: dict[str, Any] = {"error": f"load process {post.number + 1} failed"}
        try:
            os.close(reading)
            answer = work(post)
        except (FastpathError, OSError) as error:
            answer = {"error": f"load process {post.number + 1}: {error}"}
        except KeyboardInterrupt:
            answer = {"error": "interrupted"}
        finally:
            # The child never returns into the parent's program.
            try:
                _write_all(writing, json.dumps(answer).encode())
            finally:
                os._exit(0)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)
