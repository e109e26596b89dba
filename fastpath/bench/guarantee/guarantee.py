"""`guarantee`: what it costs that nothing acknowledged is lost, and how fast what was missed comes back."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..load.sockets import BenchError
from ..machine.description import machine
from ..machine.processes import open_files_most
from ..machine.procfs import filesystem
from ..report import documents
from ..report.report import load
from ..scenarios.measure import RunOptions, cores
from ..scenarios.result import Result, lines, write
from . import acknowledgements, cost, recovery, starts, tables
from .cost import Say

Part = Callable[[RunOptions, Say, float], dict[str, Any]]

PARTS: dict[str, tuple[Part, str]] = {
    "cost": (
        cost.measure,
        "CPU time of standard and guaranteed delivery and of the journal, servers beside each other in turn",
    ),
    "ack": (
        acknowledgements.measure,
        "from publishing to the acknowledgement, at 500/s and at the most: in memory, with the journal, through Redis",
    ),
    "recovery": (
        recovery.measure,
        "10,000 clients that missed 100 messages each come back within a second, beside a stream that goes on",
    ),
    "redis": (
        starts.joining,
        "messages a second through one node with three Redis servers beside it, and a node that joins",
    ),
    "journal": (starts.journal, "what the journal adds to a message, and a start with a million in it"),
}
"""Parts that may be asked for, with a line of help each."""

EPILOG = """\
parts:
{parts}

All of them take about six minutes on a quiet machine; the progress goes to the standard error. Parts with Redis start
redis-server themselves, and are left out where there is none. The journals lie in the folder for temporary files
(TMPDIR): it must be on a disk, or syncing costs nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `guarantee [PART …] [--json] [--repeat N] [--output FILE] [--docs FILE]`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG.format(parts="\n".join(f"  {name:<10}{text}" for name, (_, text) in PARTS.items()))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default all)")
    parser.add_argument("--json", action="store_true", help="each result as one line of JSON")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="measure each part N times (default 1)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="less than 1: shorter, with fewer clients and messages"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write all results, a line of JSON each")
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="FILE", help="measure nothing, take what --output wrote"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        metavar="FILE",
        help=f"rewrite a Markdown page between {tables.BEGIN} and {tables.END}",
    )
    parser.add_argument("--server-core", type=int, metavar="N", help="the server's CPU core (default the first)")
    parser.add_argument("--load-core", type=int, metavar="N", help="the generator's CPU core (default the second)")


def run(arguments: argparse.Namespace) -> int:
    """Measure and show; return 1 when messages were lost, doubled or out of order."""
    runs = load(arguments.results, "part") if arguments.results else _measured(arguments)
    if arguments.docs:
        documents.write(arguments.docs, documents.section(runs, tables.figures(runs)), tables.BEGIN, tables.END)
    if arguments.json:
        print(lines(runs), end="")
    else:
        for figure in tables.figures(runs):
            print(f"{figure.title}\n\n{documents.markdown(figure.table)}\n")
    return int(any(map(tables.faults, runs)))


def _measured(arguments: argparse.Namespace) -> list[Result]:
    open_files_most()
    names = arguments.parts or list(PARTS)
    for name in names:
        if name not in PARTS:
            raise BenchError(f"no part {name!r}; there are {', '.join(PARTS)}")
    if not 0 < arguments.scale <= 1:
        raise BenchError("--scale is more than 0 and at most 1")
    server_core, load_core = cores(arguments.server_core, arguments.load_core)
    options = RunOptions(server_core=server_core, load_core=load_core)
    command = "python -m fastpath.bench " + " ".join(sys.argv[1:])
    runs: list[Result] = []
    disk = filesystem(Path(tempfile.gettempdir()))
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    for _ in range(arguments.repeat):
        for name in names:
            say(f"{name}: {PARTS[name][1]}")
            found = PARTS[name][0](options, say, arguments.scale)
            runs.append({"part": name, **found, "disk": disk, "command": command, "machine": machine()})
            if arguments.output:
                write(arguments.output, runs)
    say("done")
    return runs
