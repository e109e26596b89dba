"""Write all rules to a file, or take those of a file."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from entitlement import history, tokens
from entitlement.models import Rule
from entitlement.rules import transfer

ERRORS_SHOWN = 50


class Command(BaseCommand):
    """``export`` and ``import``; the file's name says whether it is JSON or CSV."""

    help = "Export the rules to a file, or import a file of rules: all of it, or nothing when a row is wrong."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """export [FILE] | import FILE [--replace] [--dry-run] [--as USER]."""
        parser.add_argument("what", choices=("export", "import"))
        parser.add_argument("file", nargs="?", default="-", help='"-" is standard input or output')
        parser.add_argument("--format", choices=transfer.FORMATS, help="for files whose name does not say it")
        parser.add_argument("--replace", action="store_true", help="delete the rules that are not in the file")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument("--as", dest="user", help="the user who is noted as having made the changes")

    def handle(self, *_: Any, **options: Any) -> None:
        """Do it, or say what is wrong, row by row."""
        path = options["file"]
        form = options["format"] or Path(path).suffix.lstrip(".").lower() or "json"
        if form not in transfer.FORMATS:
            raise CommandError(f"{path} is neither .json nor .csv: say --format.")
        try:
            if options["what"] == "export":
                self._export(path, form)
            else:
                self._import(path, form, options)
        except (OSError, UnicodeDecodeError, transfer.TransferError, tokens.UnknownUser) as error:
            raise CommandError(str(error)) from None

    def _export(self, path: str, form: str) -> None:
        parts = transfer.export(Rule.objects.all(), form)
        if path == "-":
            for part in parts:
                self.stdout.write(part, ending="")
            return
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)
        self.stdout.write(f"{Rule.objects.count()} rules are in {path}.")

    def _import(self, path: str, form: str, options: dict[str, Any]) -> None:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        user = tokens.user_named(options["user"]) if options["user"] else None
        name = "standard input" if path == "-" else Path(path).name
        with history.acting(user, f"import of {name} by {_system_user()}"):
            plan = transfer.load(text, form, replace=options["replace"], dry=options["dry_run"])
        if plan.errors:
            for error in plan.errors[:ERRORS_SHOWN]:
                self.stderr.write(str(error))
            more = len(plan.errors) - ERRORS_SHOWN
            raise CommandError(f"{f'and {more} more. ' if more > 0 else ''}Nothing was changed.")
        self.stdout.write(f"{'Would be done' if options['dry_run'] else 'Done'}: {plan.summary()}")


def _system_user() -> str:
    """Who runs the command, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unknown user"
