"""Run the agent that keeps the sidecar's rights up to date, on its own."""

from __future__ import annotations

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from entitlement import conf
from entitlement.agent import Agent


class Command(BaseCommand):
    """What runrealtime starts as a thread, as a process."""

    help = "Send the rules to the sidecar, and every change of them, until stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """[--control PATH]."""
        parser.add_argument("--control", help='path of the control socket (default: REALTIME["CONTROL"])')

    def handle(self, *_: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        Agent(options["control"] or conf.control_path(), stop).run()
