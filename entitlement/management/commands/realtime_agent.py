"""Run the agents that keep the nodes' rights up to date, on their own."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from entitlement import conf
from entitlement.following.agent import follow
from entitlement.passwords import PasswordChecks
from fastpath.stop_signal import stop_on_signals


class Command(BaseCommand):
    """The agents that runrealtime starts as a thread, as a process."""

    help = "Send the rules to every node, and every change of them, and check passwords for them, until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [--control ADDRESS]."""
        parser.add_argument(
            "--control",
            action="append",
            help='a control socket: a path or tls://…; for several nodes repeated (default: REALTIME["CONTROL"])',
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        with stop_on_signals() as stop:
            addresses = options["control"] or conf.control_addresses()
            PasswordChecks(stop).start(addresses)
            follow(addresses, stop)
