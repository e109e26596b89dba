"""What processes have used, as Linux tells it in /proc."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def cpu_ns(pids: Iterable[int]) -> int:
    """Return the CPU time of all threads of these processes, user and kernel, in ns; what has ended counts as
    nothing."""
    total = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(path.read_text().split()[0])
            except (OSError, ValueError, IndexError):
                continue
    return total


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the processes' proportional memory: what several share counts once."""
    return sum(_rollup(pid).get("Pss", 0) for pid in pids)


def private_bytes(pids: Iterable[int]) -> int:
    """Return the processes' anonymous memory: the heap, without the program's files."""
    return sum(_rollup(pid).get("Anonymous", 0) for pid in pids)


def kernel_bytes() -> int:
    """Return the memory of the whole machine that the kernel holds for sockets and the like, in bytes."""
    figures = _figures(Path("/proc/meminfo"))
    return figures.get("Slab", 0) + figures.get("KernelStack", 0)


def available_bytes() -> int:
    """Return the bytes that the machine could still give."""
    return _figures(Path("/proc/meminfo")).get("MemAvailable", 0)


def filesystem(folder: Path) -> str:
    """Return the kind of file system that a folder is on, such as ext4; empty if that cannot be told."""
    found, kind = "", ""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        _, place, name, *_ = line.split(" ")
        if len(place) >= len(found) and folder.resolve().is_relative_to(place):
            found, kind = place, name
    return kind


def _rollup(pid: int) -> dict[str, int]:
    return _figures(Path(f"/proc/{pid}/smaps_rollup"))


def _figures(path: Path) -> dict[str, int]:
    """Return lines ``Name: 12 kB`` as bytes."""
    result = {}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    for line in lines:
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB":
            result[parts[0].rstrip(":")] = int(parts[1]) * 1024
    return result
