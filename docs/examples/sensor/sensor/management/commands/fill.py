"""manage.py fill: the user of the thing, who may publish, and the rule by which everybody may read."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand
from django.db import transaction

from entitlement.models import Action, Effect, Rule


class Command(BaseCommand):
    """What is there already stays."""

    help = "Make the user and the rules."

    @transaction.atomic
    def handle(self, *_: Any, **__: Any) -> None:
        """Once."""
        users = get_user_model().objects
        thing = users.filter(username="sensor").first() or users.create_user("sensor", password="demo")  # noqa: S106
        reading = {"pattern": "/sensors/**", "action": Action.SUBSCRIBE, "effect": Effect.ALLOW, "everyone": True}
        writing = {"pattern": "/sensors/**", "action": Action.PUBLISH, "effect": Effect.ALLOW, "user": thing}
        for rule in (reading, writing):
            if not Rule.objects.filter(**rule).exists():
                Rule.objects.create(**rule)
        self.stdout.write("user sensor, password demo")
