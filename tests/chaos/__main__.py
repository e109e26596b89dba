"""``python -m tests.chaos run [FAULT…]``: inject faults under load and prove what must hold; ``list``; ``report``."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.sidecar import ROOT

from .bugs import BUGS
from .faults import FAULTS
from .results import Results
from .run import INJECTIONS_MAX, merge, run_fault
from .table import Fault

TIMES = 20
RESULTS = ROOT / "var" / "chaos" / "results.jsonl"
PAGE = ROOT / "docs" / "operate" / "reliability.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="inject; the last line of the output is one JSON object")
    run.add_argument("fault", nargs="*", help="names, or beginnings of names; none: all")
    run.add_argument("-n", "--times", type=int, help=f"more injections of each; without it each is brought to {TIMES}")
    run.add_argument("--short", action="store_true", help="each once, not added to the results")
    run.add_argument("--seed", type=int, help="of the first run's fault, to choose the same again")
    run.add_argument("--results", type=Path, default=RESULTS, help="a file of JSON lines that runs are added to")
    run.add_argument("--again", action="store_true", help="forget the earlier results of these faults first")
    commands.add_parser("list", help="the faults")
    report = commands.add_parser("report", help="the table of the results")
    report.add_argument("--results", type=Path, default=RESULTS)
    report.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.command == "list":
        for fault in FAULTS:
            print(f"{fault.name:24} {fault.what}")
        return 0
    results = Results(options.results)
    if options.command == "report":
        table = results.table(FAULTS, PAGE.read_text(encoding="utf-8"))
        if options.write:
            results.write(PAGE, table)
        else:
            print(table)
        return 0
    return _run(options, results)


def _run(options: argparse.Namespace, results: Results) -> int:
    chosen = [one for one in FAULTS if not options.fault or any(one.name.startswith(name) for name in options.fault)]
    if options.short and not options.fault:
        chosen = [fault for fault in chosen if fault.short]
    chosen += [bug for bug in BUGS if bug.name in options.fault]
    if not chosen:
        print(f"no fault is called {', '.join(options.fault)}: see `python -m tests.chaos list`", file=sys.stderr)
        return 2
    if options.again:
        results.forget({fault.name for fault in chosen})
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    done = []
    for fault in chosen:
        if why := fault.obstacle():
            _progress(f"{fault.name} CANNOT BE INJECTED here: {why}")
            continue
        for count in _portions(options, results, fault):
            result = run_fault(fault, count, seed, _progress)
            seed += 1
            done.append(result)
            if not options.short:
                results.add(result)
            for failure in result["failures"]:
                _progress(f"{fault.name} FAILED (seed {result['seed']}): {failure}")
            _progress(f"{fault.name}: {'failed' if result['failures'] else 'ok'}, {result['seconds']} s")
    slow = [f"{fault.name} FAILED: {text}" for fault in chosen if (text := results.slow(fault))]
    if options.short:
        slow = []
    for text in slow:
        _progress(text)
    shown = done if options.short or options.times else results.of({fault.name for fault in chosen})
    print(json.dumps(merge(shown)))
    return 1 if slow or any(result["failures"] for result in shown) else 0


def _portions(options: argparse.Namespace, results: Results, fault: Fault) -> list[int]:
    """How many injections each run of the fault makes."""
    if options.short:
        return [1]
    left = options.times if options.times is not None else TIMES - results.injections(fault.name)
    return [min(INJECTIONS_MAX, left - start) for start in range(0, left, INJECTIONS_MAX)]


def _progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
