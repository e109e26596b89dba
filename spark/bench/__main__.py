"""`python -m spark.bench [PART…]`: measures Spark's sink, source and jobs, and prints a table."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from fastpath.bench.machine.description import machine
from spark.bench.serving import BenchError
from spark.bench.tables import Figure, table, write
from spark.session import build

PARTS = {
    "writing": "the sink: exactly once, row by row, into a receiver that discards",
    "committing": "a commit of a million rows, and what a client beside it waits",
    "reading": "the source: batch and streaming",
    "latency": "row accepted, through Spark, row accepted again",
    "desk": "bars, movers and alerts of 200 symbols",
    "demonstration": "the jobs of `make run`: first price, CPU, memory",
    "horizons": "12 horizons over 15 months of minutes",
}
SETTINGS = {"spark.driver.memory": "3g"}
ALONE = {"demonstration"}
"""Parts with a session of their own, measured before there is another one."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m spark.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="; ".join(f"{k}: {v}" for k, v in PARTS.items()))
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="measurements of each (default 3)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="the figures as JSON")
    options = parser.parse_args(words)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = sorted(options.parts or PARTS, key=lambda part: part not in ALONE)
    session: SparkSession | None = None
    made_with = machine()
    figures: list[Figure] = []
    try:
        for part in parts:
            if part not in ALONE:
                session = session or build("bench", **SETTINGS)
            found = importlib.import_module(f"spark.bench.{part}").measure(session, max(1, options.repeat))
            print(f"\n{part}: {PARTS[part]}\n\n{table(found)}", flush=True)
            figures += found
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        if session is not None:
            session.stop()
    if options.output:
        write(figures, options.output, made_with)
    return 0


if __name__ == "__main__":
    sys.exit(main())
