"""``python -m tests.behaviours [OPTION...] -- COMMAND...``: holds a client, whose driver the command starts, against
the vectors and the table (docs/reference/conformance.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .driver import Driver, DriverFailed
from .holding import Skipped, hold_case, hold_vectors
from .table import cases

TRANSPORTS = ("websocket", "stream", "poll")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all that was run holds, 1 when something does not, or nothing was run."""
    parser = argparse.ArgumentParser(prog="python -m tests.behaviours", description=__doc__)
    parser.add_argument("--transports", default=",".join(TRANSPORTS), help="that the client has, the best one first")
    parser.add_argument("--part", choices=("cases", "vectors"), help="only these")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases of these names, and no vectors")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="starts the driver; -- before it")
    given = parser.parse_args(arguments)
    count = {"held": 0, "failed": 0, "skipped": 0}
    try:
        with Driver(given.command) as driver:
            for name, problems, reason in _held(driver, given):
                what = "skipped" if reason else "failed" if problems else "held"
                count[what] += 1
                for line in [*problems, *([reason] if reason else [])]:
                    print(f"{what}: {name}: {line}")
    except DriverFailed as error:
        print(f"failed: {error}")
        count["failed"] += 1
    print(", ".join(f"{number} {what}" for what, number in count.items()))
    return int(count["failed"] > 0 or count["held"] == 0)


def _held(driver: Driver, given: argparse.Namespace) -> Iterator[tuple[str, list[str], str]]:
    """The name of each that was run, what was wrong with it, and why it was skipped, if it was."""
    if given.part != "cases" and not given.only:
        try:
            for vector, problems in hold_vectors(driver):
                yield f"vector {vector}", problems, ""
        except Skipped as skipped:
            yield "vectors", [], str(skipped)
    if given.part == "vectors":
        return
    for file, case in cases():
        if given.only and case["name"] not in given.only:
            continue
        for transports in _choices(case, given.transports.split(",")):
            name = f"{file} {case['name']} over {'/'.join(transports)}: {case['rule']}"
            try:
                yield name, hold_case(driver, case, transports), ""
            except Skipped as skipped:
                yield name, [], str(skipped)


def _choices(case: dict[str, Any], transports: list[str]) -> list[tuple[str, ...]]:
    """All that the client has, and each alone; once, where the case says itself which it is about."""
    if "transports" in case.get("options", {}):
        named = case["options"]["transports"]
        return [tuple(named)] if set(named) <= set(transports) else []
    return list(dict.fromkeys([tuple(transports), *((one,) for one in transports)]))


if __name__ == "__main__":
    sys.exit(main())
