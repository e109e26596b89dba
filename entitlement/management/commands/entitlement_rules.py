"""Write all rules to a file, take those of a file, or add one."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, no_translations

from entitlement import history, tokens
from entitlement.models import Action, Rule
from entitlement.rules import files, transfer

ERRORS_SHOWN = 50


class Command(BaseCommand):
    """``export`` and ``import``, where the file's name says whether it is JSON or CSV; ``allow`` and ``deny``."""

    help = (
        "Export the rules to a file, or import a file of rules: all of it, or nothing when a row is wrong. "
        "`allow HOLDER PATTERN` and `deny HOLDER PATTERN` add one rule."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """export [FILE] | import FILE [--replace] [--dry-run] | allow HOLDER PATTERN | deny …; [--as USER]."""
        parser.add_argument("what", choices=("export", "import", "allow", "deny"))
        parser.add_argument(
            "file",
            nargs="?",
            default="-",
            metavar="FILE|HOLDER",
            help='"-" is standard input or output; of a rule: everyone, anonymous, user:NAME or group:NAME',
        )
        parser.add_argument("pattern", nargs="?", default="", help="of a rule: its subjects, such as '/scores/**'")
        parser.add_argument("--action", choices=Action.values, default="subscribe", help="what the rule is about")
        parser.add_argument("--format", choices=files.FORMATS, help="for files whose name does not say it")
        parser.add_argument("--replace", action="store_true", help="delete the rules that are not in the file")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
        parser.add_argument("--as", dest="user", help="the user who is noted as having made the changes")

    @no_translations
    def handle(self, *_: Any, **options: Any) -> None:
        """Do it, or say what is wrong, row by row."""
        path = options["file"]
        if options["what"] in ("allow", "deny"):
            self._add(path, options)
            return
        if options["pattern"]:
            raise CommandError(f"{options['what']} takes one file: what is {options['pattern']!r}?")
        form = options["format"] or Path(path).suffix.lstrip(".").lower() or "json"
        if form not in files.FORMATS:
            raise CommandError(f"{path} is neither .json nor .csv: say --format.")
        try:
            if options["what"] == "export":
                self._export(path, form)
            else:
                self._import(path, form, options)
        except (OSError, files.TransferError, tokens.UnknownUser) as error:
            raise CommandError(str(error)) from None

    def _add(self, holder: str, options: dict[str, Any]) -> None:
        try:
            rule = Rule(**_who(holder), pattern=options["pattern"], action=options["action"], effect=options["what"])
            user = tokens.user_named(options["user"]) if options["user"] else None
            rule.full_clean()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except tokens.UnknownUser as error:
            raise CommandError(str(error)) from None
        with history.acting(user, f"entitlement_rules by {_system_user()}"):
            rule.save()
        self.stdout.write(f"Added rule {rule.pk}: {rule}.")

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
        text = files.decode(sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes())
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


def _who(holder: str) -> dict[str, Any]:
    """Return the fields of a rule about this holder; raise CommandError, UnknownUser."""
    kind, _, name = holder.partition(":")
    match kind:
        case "everyone" | "anonymous" if not name:
            return {kind: True}
        case "user" if name:
            return {"user": tokens.user_named(name)}
        case "group" if name:
            try:
                return {"group": Group.objects.get(name=name)}
            except Group.DoesNotExist:
                raise CommandError(f"There is no group {name!r}.") from None
    raise CommandError(f"{holder!r} is no holder: say everyone, anonymous, user:NAME or group:NAME.")


def _system_user() -> str:
    """Return who runs the command, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unknown user"
