"""python -m fastpath.recording: records subjects, replays and shows recordings."""

from __future__ import annotations

import argparse
import logging
import sys

from fastpath.core.protocol.errors import FastpathError

from . import record, replay, show

COMMANDS = (
    ("record", record, "write what subjects say to a file"),
    ("replay", replay, "publish a recording again, at any speed, to any server"),
    ("show", show, "say what is in a recording"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fastpath.recording", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module, summary in COMMANDS:
        sub = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(sub)
        sub.set_defaults(handler=module.run)
    options = parser.parse_args(arguments)
    # What the client has to say is in the file, and in the line of progress.
    logging.getLogger("fastpath.client").setLevel(logging.ERROR)
    try:
        return int(options.handler(options))
    except (FastpathError, ValueError) as error:
        print(f"fastpath.recording: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0  # who read the result has seen enough


if __name__ == "__main__":
    sys.exit(main())
