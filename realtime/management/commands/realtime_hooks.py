"""Run the project's hook and listeners: what the sidecar asks and tells Django.

docs/develop/hooks.md and docs/operate/audit.md explain it.
"""

from __future__ import annotations

import threading
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from fastpath.stop_signal import stop_on_signals
from realtime import listening
from realtime.conf import conf
from realtime.process import hook_runner

READY = "answering the sidecar"
"""Beginning of the line that the command prints when it runs."""

_END_SECONDS = 2.0


class Command(BaseCommand):
    """The runner of hook and listeners, which runs until SIGINT or SIGTERM."""

    help = 'Run REALTIME["HOOK"] and REALTIME["LISTENERS"] for all nodes of REALTIME["CONTROL"], until told to stop.'

    def handle(self, *_: Any, **__: Any) -> None:
        """Connect to every node, and again whenever one is back."""
        with stop_on_signals() as stop:
            threads = self._start(stop)
            stop.wait()
        for thread in threads:
            thread.join(_END_SECONDS)

    def _start(self, stop: threading.Event) -> list[threading.Thread]:
        try:
            hook = hook_runner.load()
            listeners = conf.listeners
            threads = listening.start(conf.controls, stop)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        if hook is None and not listeners:
            raise CommandError('there is nothing to run: neither REALTIME["HOOK"] nor REALTIME["LISTENERS"] is set')
        if hook is not None:
            threads += hook_runner.start(hook, conf.controls, stop)
        names = ([conf.hook] if hook is not None else []) + listeners
        self.stdout.write(f"{READY}: {', '.join(names)}")
        self.stdout.flush()
        return threads
