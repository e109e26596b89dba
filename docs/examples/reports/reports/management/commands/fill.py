"""manage.py fill: the rule by which everybody may read."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from entitlement.models import Action, Effect, Rule


class Command(BaseCommand):
    """What is there already stays."""

    help = "Make the rule."

    def handle(self, *_: Any, **__: Any) -> None:
        """Once."""
        rule = {"pattern": "/reports/*", "action": Action.SUBSCRIBE, "effect": Effect.ALLOW, "everyone": True}
        if not Rule.objects.filter(**rule).exists():
            Rule.objects.create(**rule)
