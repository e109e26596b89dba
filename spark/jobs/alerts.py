"""Publishes an alert where the price of an instrument is out of bounds: `python -m spark.jobs.alerts --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark.jobs.desk import job


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return job.main("alerts", "Publishes alerts to /alerts/us/SYMBOL.", job.of_alerts, words)


if __name__ == "__main__":
    sys.exit(main())
