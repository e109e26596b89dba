"""How near this process, its node and the machine are to their bounds, as figures."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..runtime.component import Offers
from ..runtime.runtime import Runtime

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_AGAIN_SECONDS = 0.9
"""The machine's processor time is looked at again after that: figures are asked for by several."""

CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files where a container's own memory is told, by version 2 and 1 of control groups."""


class Bounds:
    """Tells what may be used at most beside what is used, as figures."""

    def __init__(self, runtime: Runtime, connections_max: int) -> None:
        settings = runtime.settings
        self._runtime = runtime
        self._machine_bytes = machine_memory_bytes()
        self._fixed: dict[str, float] = {
            "connections_max": connections_max,
            "subjects_max": settings.subjects_max,
            "cached_bytes_max": settings.cache_bytes,
            "memory_bytes_max": settings.memory_bytes_max or self._machine_bytes,
            "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource is not None else 0,
        }
        self._busy = _busy_ticks()
        self._looked = time.monotonic()
        self._machine: dict[str, float] = {}
        self.offers = Offers(figures=self.figures)

    def figures(self) -> dict[str, float]:
        """Return the bounds, the files in use and, of the first worker, how busy the machine is."""
        if not self._runtime.workers.follows and time.monotonic() - self._looked >= _AGAIN_SECONDS:
            self._look()
        return {**self._fixed, "files": self._files(), **self._machine}

    def _files(self) -> int:
        """Open files and sockets; before Linux 6.2, and elsewhere, the connections alone."""
        try:
            return os.stat("/proc/self/fd").st_size or self._connections()
        except OSError:
            return self._connections()

    def _connections(self) -> int:
        runtime = self._runtime
        return runtime.connections + len(runtime.publisher_connections) + len(runtime.control_connections)

    def _look(self) -> None:
        """Look at the machine as a whole, since the last look."""
        last, self._busy, self._looked = self._busy, _busy_ticks(), time.monotonic()
        busy, all_of_it = self._busy[0] - last[0], self._busy[1] - last[1]
        if all_of_it > 0:
            self._machine = {
                "machine_cpu_percent": min(round(100 * busy / all_of_it, 1), 100),  # that of waiting may fall
                "machine_memory_bytes": self._machine_bytes,
                "machine_memory_available_bytes": _available_bytes(),
            }


def machine_memory_bytes() -> int:
    """Return what the machine has, or less where this process is in a container with less; 0 if it is not told."""
    if not hasattr(os, "sysconf"):  # Windows
        return 0
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in CGROUPS:
        try:
            told = Path(path).read_text().strip()
        except OSError:
            continue
        if told.isdigit():  # not "max"
            machine = min(machine, int(told))
    return machine


def _busy_ticks() -> tuple[int, int]:
    """Processor time of all cores since the start of the machine: busy, and all; 0 where /proc does not tell."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(one) for one in file.readline().split()[1:9]]
    except OSError:
        return 0, 0
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)  # all but idle and waiting for a disk


def _available_bytes() -> int:
    """Return what programs can still get without swapping; 0 where /proc does not tell."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0
