"""`python -m tests.measure [NAME...]` measures the rows whose names begin so, or all; 1 when a promise is broken."""

from __future__ import annotations

import argparse
import sys
import traceback

from . import calls, delivery, ending, following, hostile, rights, work
from .rows import ROWS, Found, run

MODULES = (rights, following, calls, delivery, ending, work, hostile)
"""Where the rows are; to import them fills ROWS."""


def line(found: Found) -> str:
    """Of the table."""
    verdict = "" if found.kept else "  BROKEN"
    return f"{found.row.name:<34} {found.row.bound:>18} {found.median:>10.3f} {found.worst:>10.3f}{verdict}"


def main() -> int:
    """Measure what is asked for, and print the table as it comes."""
    parser = argparse.ArgumentParser(prog="tests.measure", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the rows whose names begin so; all without")
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument("--only", action="store_true", help="the rows of these whole names alone")
    parser.add_argument("--list", action="store_true", help="say what each row promises, and measure nothing")
    options = parser.parse_args()
    chosen = [
        one
        for one in ROWS.values()
        if not options.names
        or (one.name in options.names if options.only else one.name.startswith(tuple(options.names)))
    ]
    if not chosen:
        parser.error(f"there is no such row; there are {', '.join(ROWS)}")
    if options.list:
        for one in chosen:
            print(f"{one.name:<34} {one.bound:>18}  {one.promise}")
        return 0
    print(f"{'row':<34} {'promise':>18} {'median':>10} {'worst':>10}", flush=True)
    broken = []
    for one in chosen:
        try:
            found = run(one, options.runs)
        except Exception:
            traceback.print_exc()
            print(f"{one.name:<34} {one.bound:>18} could not be measured", flush=True)
            broken.append(one.name)
            continue
        print(line(found), flush=True)
        if not found.kept:
            broken.append(one.name)
    if broken:
        print("broken:", ", ".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
