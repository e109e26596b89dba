"""What is ordered."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """One order."""

    item = models.CharField(max_length=100)
    state = models.CharField(max_length=20, default="new")

    def __str__(self) -> str:
        """As the page has it."""
        return f"{self.pk} {self.item}: {self.state}"
