"""The outbox in figures, for Prometheus and the monitoring page."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Count, Min, Q
from django.utils import timezone

from realtime.conf import conf
from realtime.models import OutboxMessage, OutboxState


class OutboxFigures(NamedTuple):
    """Rows that wait and that were set aside, the age of the oldest that waits (s), and totals since the beginning."""

    waiting: int
    set_aside: int
    oldest_seconds: float
    sent: int
    refused: int
    retries: int


def outbox_figures() -> OutboxFigures | None:
    """Return the figures as the database has them; None without an outbox. Raise django.db.Error."""
    alias = conf.outbox
    if not alias:
        return None
    messages = OutboxMessage.objects.using(alias)
    counts = messages.aggregate(
        waiting=Count("id", filter=Q(code="")),
        aside=Count("id", filter=~Q(code="")),
        oldest=Min("created", filter=Q(code="")),
    )
    age = (timezone.now() - counts["oldest"]).total_seconds() if counts["oldest"] else 0.0
    totals = OutboxState.objects.using(alias).values_list("sent", "refused", "retries").first() or (0, 0, 0)
    return OutboxFigures(counts["waiting"], counts["aside"], max(0.0, age), *totals)
