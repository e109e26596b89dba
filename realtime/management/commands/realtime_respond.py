"""Answer requests with the project's responders (docs/develop/request-reply.md)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fastpath.stop_signal import stop_on_signals
from realtime.conf import conf
from realtime.requests import runner
from realtime.requests.responders import discover

READY = "answering requests to"
"""Beginning of the line that the command prints when it runs."""

THREADS_MAX = 256

_END_SECONDS = 2.0


class Command(BaseCommand):
    """The runner of the responders, which runs until SIGINT or SIGTERM."""

    help = 'Answer requests with the functions in the apps\' responders.py, for all nodes of REALTIME["CONTROL"].'

    def add_arguments(self, parser: CommandParser) -> None:
        """Take how many requests are answered at a time."""
        parser.add_argument("--threads", type=int, default=runner.THREADS, help="requests that are answered at a time")

    def handle(self, *_: Any, threads: int, **__: Any) -> None:
        """Connect to every node, and again whenever one is back."""
        if not 0 < threads <= THREADS_MAX:
            raise CommandError(f"--threads is 1 to {THREADS_MAX}")
        try:
            responders = discover()
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        if not len(responders):
            raise CommandError("there is nothing to run: no responders.py of an app has a function with @respond(…)")
        with stop_on_signals() as stop:
            serving = runner.start(responders, conf.controls, stop, threads)
            self.stdout.write(f"{READY} {', '.join(responders.patterns)}")
            self.stdout.flush()
            stop.wait()
        for thread in serving:
            thread.join(_END_SECONDS)
