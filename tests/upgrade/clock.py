"""The sidecar under a clock that is behind: ``python -m tests.upgrade.clock SECONDS``.

What is remembered of publications for three minutes is remembered at the time of the fixtures, and not today.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable

_now: Callable[[], int] = time.time_ns


def main() -> None:
    """Run it as ``python -m fastpath`` does."""
    behind = int(sys.argv.pop()) * 1_000_000_000
    time.time_ns = lambda: _now() - behind
    time.time = lambda: (_now() - behind) / 1e9
    runpy.run_module("fastpath", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
