"""Prints the table of docs/operate/limits.md: ``python -m tests.hostile``; the median of three runs of each attack."""

from __future__ import annotations

import sys
from statistics import median

from .attacks import ATTACKS
from .measuring import measure, pair

TRIES = 3


def main() -> None:
    """Measure and print."""
    out = sys.stdout.write
    out("| attack | connections/s | MiB/s | p50 elsewhere, ms | p50 here, ms | p90 elsewhere, ms | p90 here, ms |\n")
    with pair() as targets:
        for name in ATTACKS:
            runs = [measure(*targets, name) for _ in range(TRIES)]
            usual = {key: median(run[key] for run in runs) for key in runs[0]}
            seconds = usual["seconds"]
            out(
                f"| {name} | {usual['connects'] / seconds:,.0f} | {usual['sent_mib'] / seconds:.1f} "
                f"| {usual['elsewhere_p50']:.1f} | {usual['p50']:.1f} "
                f"| {usual['elsewhere_p90']:.1f} | {usual['p90']:.1f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
