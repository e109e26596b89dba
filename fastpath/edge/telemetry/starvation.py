"""For how long this process' loop could have run and had no processor: what starves on a machine that is full."""

from __future__ import annotations


def waited_seconds() -> float:
    """Of the first thread, which is the loop's, since it began, by Linux' /proc; 0 where that does not tell."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0
