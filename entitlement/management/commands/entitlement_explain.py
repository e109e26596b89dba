"""Say whether a user may read or publish a subject, which rules are about it, and what the sidecar answers."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError, no_translations

from entitlement import tokens
from entitlement.rules import explain
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_subject


class Command(BaseCommand):
    """The explanation that the admin's page *Explain* shows."""

    help = (
        'Say whether a user ("-": not signed in) may subscribe to or publish a subject, which rule decides, '
        "and what the running sidecar answers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take USER SUBJECT [subscribe|publish]."""
        parser.add_argument("user", help='user name, or "-" for somebody who is not signed in')
        parser.add_argument("subject")
        parser.add_argument("action", nargs="?", choices=("subscribe", "publish"), default="subscribe")

    @no_translations
    def handle(self, *_: Any, **options: Any) -> None:
        """Decide by the database's rules, ask the sidecar, print both."""
        name, subject = options["user"], options["subject"]
        try:
            check_subject(subject)
            user = None if name == "-" else tokens.user_named(name)
        except (tokens.UnknownUser, InvalidSubject) as error:
            raise CommandError(str(error)) from None
        explanation = explain.explain(explain.person(user), subject, options["action"])
        self.stdout.write("\n".join(explain.text(explanation)))
