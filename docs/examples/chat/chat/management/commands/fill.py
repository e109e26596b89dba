"""manage.py fill: rooms need no rules, since groups are no subjects."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    """Nothing to fill."""

    help = "The chat begins empty."

    def handle(self, *_: Any, **__: Any) -> None:
        """Say so."""
        self.stdout.write("Rooms are made when somebody comes in.")
