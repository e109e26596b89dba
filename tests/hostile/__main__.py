"""Prints the table of docs/limits.md: ``python -m tests.hostile``; the best of three runs of each attack."""

from __future__ import annotations

import sys

from .attacks import ATTACKS
from .measuring import attacked, measure

TRIES = 3


def main() -> None:
    """Measure and print."""
    out = sys.stdout.write
    out("| attack | connections/s | MiB/s | p99 before, ms | p50 while, ms | p99 while, ms |\n")
    with attacked() as sidecar:
        for name in ATTACKS:
            best = min((measure(sidecar, name) for _ in range(TRIES)), key=lambda found: found["during"])
            seconds = best["seconds"]
            out(
                f"| {name} | {best['connects'] / seconds:,.0f} | {best['sent_mib'] / seconds:.1f} "
                f"| {best['before']:.1f} | {best['usual']:.1f} | {best['during']:.1f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
