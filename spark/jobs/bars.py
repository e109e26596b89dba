"""Publishes bars of the prices, open, high, low, close, VWAP and volume: `python -m spark.jobs.bars --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark.jobs.desk import job


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return job.main("bars", "Publishes the bars of all prices to /bars-INTERVAL/us/SYMBOL.", job.of_bars, words)


if __name__ == "__main__":
    sys.exit(main())
