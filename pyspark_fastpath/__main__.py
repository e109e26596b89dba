"""Says whether sessions that are built from this environment find the format: ``python -m pyspark_fastpath``."""

from __future__ import annotations

import os
import sys

from spark.session import WORKER_MODULES, WorkersLack, check_worker

MODULES = (*WORKER_MODULES, "pyspark_fastpath", "spark", "fastpath")


def pythons() -> list[str]:
    """Return the interpreters that Spark starts, by the names that it takes: who plans first, then who runs tasks."""
    tasks = os.environ.get("PYSPARK_PYTHON") or "python3"
    return list(dict.fromkeys([os.environ.get("PYSPARK_DRIVER_PYTHON") or tasks, tasks]))


def main() -> int:
    """Print what was found; 1 where one of them lacks something, with what to type."""
    try:
        for python in pythons():
            check_worker(python, MODULES)
    except WorkersLack as error:
        print(f'format("fastpath") is not found: {error}', file=sys.stderr)
        if os.environ.get("PYSPARK_DRIVER_PYTHON"):
            print(
                "PYSPARK_DRIVER_PYTHON wins over it where queries are planned: unset it, or name the same",
                file=sys.stderr,
            )
        return 1
    print(f'format("fastpath") is found by {" and ".join(pythons())}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
