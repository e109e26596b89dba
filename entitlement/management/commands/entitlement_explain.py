"""Ask the sidecar whether a user may read or publish a subject, and why."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from entitlement import conf, tokens
from fastpath.client.errors import ControlRefused, SidecarUnavailable
from fastpath.client.nodes import Nodes


class Command(BaseCommand):
    """The sidecar itself answers, so that what is said here is what happens there."""

    help = 'Say whether a user ("-": not signed in) may subscribe to or publish a subject, and why.'

    def add_arguments(self, parser: ArgumentParser) -> None:
        """USER SUBJECT [subscribe|publish]."""
        parser.add_argument("user", help='user name, or "-" for somebody who is not signed in')
        parser.add_argument("subject")
        parser.add_argument("action", nargs="?", choices=("subscribe", "publish"), default="subscribe")

    def handle(self, *_: Any, **options: Any) -> None:
        """Mint a token that is valid for a minute, ask, print."""
        name, subject, action = options["user"], options["subject"], options["action"]
        try:
            token = None if name == "-" else tokens.mint(tokens.user_named(name), seconds=60)[0]
            with Nodes(conf.control_addresses()) as nodes:
                answer = nodes.check(subject, action, token)
        except (tokens.UnknownUser, tokens.MintError, SidecarUnavailable, ControlRefused) as error:
            raise CommandError(str(error)) from None
        who = "Somebody who is not signed in" if name == "-" else name
        verb = "may" if answer["allowed"] else "may not"
        reason = f": {answer['reason']}" if answer.get("reason") else ""
        self.stdout.write(f"{who} {verb} {action} {subject}{reason}.")
