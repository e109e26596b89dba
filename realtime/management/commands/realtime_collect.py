"""Collect the statistics of all nodes (docs/operate/figures.md)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from fastpath.client.control.nodes import label
from fastpath.stop_signal import stop_on_signals
from realtime.conf import conf
from realtime.stats.service import Service

READY = "collecting the statistics of"
"""Beginning of the line that the command prints when it runs."""


class Command(BaseCommand):
    """The collector, which runs until SIGINT or SIGTERM."""

    help = 'Collect the statistics of all nodes of REALTIME["CONTROL"], until told to stop. Of several one works.'

    def handle(self, *_: Any, **__: Any) -> None:
        """Ask each second, save what was found out."""
        with stop_on_signals() as stop:
            service = Service(conf.controls, stop)
            self.stdout.write(f"{READY} {', '.join(map(label, conf.controls))}")
            self.stdout.flush()
            service.run()
