"""python -m fastpath.bench: the benchmark kit's command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from fastpath.core.protocol.errors import FastpathError

from .by_hand import acknowledged, publish, subscribe
from .guarantee import guarantee
from .machine.description import revision
from .micro import figures, outbox, patterns, publishing, rules
from .report import report, wire
from .scenarios import capacity, compare, run


@dataclass(frozen=True)
class Subcommand:
    """One subcommand: its module has ``add_arguments(parser)`` and ``run(arguments)``."""

    name: str
    module: ModuleType
    summary: str


COMMANDS = (
    Subcommand("run", run, "measure the scenarios F1 to F11"),
    Subcommand("subscribe", subscribe, "simulate clients of a running server"),
    Subcommand("publish", publish, "simulate publishers for a running server"),
    Subcommand("acknowledged", acknowledged, "what MQTT's quality of service 1 costs a running server"),
    Subcommand("compare", compare, "the same scenarios beside other servers, which are started for it"),
    Subcommand("capacity", capacity, "find the greatest load that holds, and the machines that N users need"),
    Subcommand("guarantee", guarantee, "measure what it costs that nothing acknowledged is lost"),
    Subcommand("figures", figures, "measure what the sidecar's own figures cost"),
    Subcommand("publishing", publishing, "measure publish() of Django's threads beside a bare round trip and Redis"),
    Subcommand("outbox", outbox, "measure how soon the outbox sends, and how much"),
    Subcommand("rules", rules, "measure what a hundred thousand rules cost"),
    Subcommand("patterns", patterns, "measure what subscriptions to patterns cost"),
    Subcommand("report", report, "make tables of results, for the terminal, or with charts for the documentation"),
    Subcommand("wire", wire, "bytes a message, ours and others'"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fastpath.bench", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary)
        command.module.add_arguments(sub)
        handler: Callable[[argparse.Namespace], int] = command.module.run
        sub.set_defaults(handler=handler)
    options = parser.parse_args(arguments)
    revision()  # now: the checkout may change while it measures
    try:
        return int(options.handler(options))
    except (FastpathError, ValueError) as error:
        print(f"fastpath.bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
