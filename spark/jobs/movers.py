"""Says how much each price moved over a sliding window: `python -m spark.jobs.movers --help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from spark.jobs.desk import job


def main(words: Sequence[str] | None = None) -> int:
    """Run until a signal; 0 then, 1 when the query failed."""
    return job.main("movers", "Publishes to /movers/us/SYMBOL how much each price has moved.", job.of_movers, words)


if __name__ == "__main__":
    sys.exit(main())
