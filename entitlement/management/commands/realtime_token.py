"""Print a token for a user."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError, no_translations

from entitlement import keys, tokens
from entitlement.permissions.asking import PermissionsError


class Command(BaseCommand):
    """Prints the token and nothing else, for use in scripts."""

    help = "Print a token for a user, valid 12 hours unless asked otherwise."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take USER [--seconds N]."""
        parser.add_argument("user", help="user name")
        parser.add_argument("--seconds", type=int, help="validity in seconds")

    @no_translations
    def handle(self, *_: Any, **options: Any) -> None:
        """Mint and print."""
        try:
            token, _expires = tokens.mint(tokens.user_named(options["user"]), seconds=options["seconds"])
        except (tokens.UnknownUser, tokens.MintError, keys.KeysError, PermissionsError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(token)
