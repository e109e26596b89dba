"""manage.py fill: the rule by which everybody may read the orders, and one order."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from entitlement.models import Action, Effect, Rule
from orders.models import Order
from orders.views import tell


class Command(BaseCommand):
    """What is there already stays."""

    help = "Make the rule and the first order."

    @transaction.atomic
    def handle(self, *_: Any, **__: Any) -> None:
        """Once."""
        rule = {"pattern": "/orders/*", "action": Action.SUBSCRIBE, "effect": Effect.ALLOW, "everyone": True}
        if not Rule.objects.filter(**rule).exists():
            Rule.objects.create(**rule)
        if not Order.objects.exists():
            tell(Order.objects.create(item="the first book"))
        self.stdout.write(f"{Order.objects.count()} orders")
