"""python -m fastpath [--check | --print-settings]: the sidecar alone."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields

from .edge.listen.tls_context import tls_context
from .engine import registry
from .interpreter import slow_interpreter
from .listen_address import SettingsError
from .server import workers
from .server.engines import check_engine
from .server.modes import make_grants
from .server.tracing import check_tracing
from .settings import PREFIX, Settings, describe, load


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fastpath",
        description="The Fastpath sidecar: pushes live data to WebSocket clients.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_reference(),
    )
    parser.add_argument("--check", action="store_true", help="check the settings and exit")
    parser.add_argument("--print-settings", action="store_true", help="print the settings in force as TOML and exit")
    options = parser.parse_args(arguments)
    try:
        settings = load(os.environ)
        registry.place_of(settings)
        if options.print_settings:
            print(describe(settings))
        elif options.check:
            for listener in settings.listeners:
                if listener.tls:
                    tls_context(listener)
            check_engine(settings)
            make_grants(settings)
            check_tracing(settings)
            print("the settings are good")
            if warning := slow_interpreter():
                sys.stderr.write(f"fastpath: warning: {warning}\n")
        else:
            workers.run(settings)
    except SettingsError as error:
        # One write: the log still writes to the same stream, and `print` writes the end of a line by itself.
        sys.stderr.write(f"fastpath: {error}\n")
        return 2
    return 0


def _reference() -> str:
    lines = [
        "settings, from the environment or from the TOML file that FASTPATH_CONFIG names (without the prefix, "
        "lower case):"
    ]
    for one in fields(Settings):
        lines.append(f"  {PREFIX}{one.name.upper()} (default {one.default!r})\n      {one.metadata['help']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
