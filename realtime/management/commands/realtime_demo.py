"""Create the users, groups and rules of the demonstration."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from realtime.demo.seed import seed


class Command(BaseCommand):
    """Idempotent: what is there stays as it is."""

    help = "Create what is missing of the demonstration's users, groups and rules."

    def handle(self, *_: Any, **__: Any) -> None:
        """Seed, and say what was new."""
        made = seed()
        self.stdout.write(f"Created {', '.join(made)}." if made else "The demonstration's data is there already.")
