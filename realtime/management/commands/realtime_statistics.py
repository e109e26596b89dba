"""Write the statistics to files that outlast the windows, or take those of files (docs/operate/figures.md)."""

from __future__ import annotations

import time
import zlib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFailure

from realtime.stats import transfer
from realtime.stats.store import Store

_LOOK_SECONDS = 1.0


class Command(BaseCommand):
    """``export FOLDER`` adds a file of what is new; ``import FILE…`` puts buckets where there are none."""

    help = "Export what is new of the statistics to a folder, or import files where the database knows less."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """export FOLDER | import [--wait S] FILE…."""
        commands = parser.add_subparsers(dest="command", required=True)
        out = commands.add_parser("export", help="minutes, hours and days that no file of the folder has yet")
        out.add_argument("folder", type=Path)
        back = commands.add_parser("import", help="put buckets where there are none, or some of fewer samples")
        back.add_argument("files", nargs="+", type=Path)
        back.add_argument("--wait", type=float, default=20.0, help="seconds for a collector to be gone (20)")

    def handle(self, *_: Any, **options: Any) -> None:
        """Do it, and say what was done."""
        try:
            if options["command"] == "export":
                path, count = transfer.export(options["folder"])
                self.stdout.write(f"{count} buckets are in {path}." if path else "There is nothing new.")
            else:
                changed, count = self._take(options["files"], options["wait"])
                self.stdout.write(f"{changed} of {count} buckets were new or told of more.")
        except (OSError, EOFError, zlib.error, transfer.TransferError, DatabaseFailure) as error:
            raise CommandError(str(error)) from None

    def _take(self, files: list[Path], seconds: float) -> tuple[int, int]:
        """Import the files; wait for a collector at work: one that died elsewhere is gone only after a while."""
        end, store = time.monotonic() + seconds, Store()
        while True:
            try:
                return transfer.take(files, store)
            except transfer.CollectorAtWork as error:
                if time.monotonic() >= end:
                    raise CommandError(f"{error}: stop runrealtime or realtime_collect first.") from None
                time.sleep(_LOOK_SECONDS)
