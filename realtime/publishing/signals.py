"""Signals: told of each message that was published from this process, and of each that was not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.dispatch import Signal

from fastpath.client.errors import ClientError
from realtime.publishing.outcomes import Outcome
from realtime.publishing.rows import Row

published = Signal()
"""A message was stored. Receivers get ``subject``, ``content``, ``fields`` as they were sent, ``removed`` (it is a
removal), and ``position``."""

publish_failed = Signal()
"""A message that was sent was not stored, or nobody knows. Receivers get ``subject``, ``content``, ``fields``,
``removed`` and ``error``. What is refused at the call is raised there alone."""


class Publisher:
    """The sender of both signals."""


def tell(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> None:
    """Call the receivers, whose errors are Django's to log: a message is sent by then."""
    if published.receivers or publish_failed.receivers:
        for signal, values in _told(rows, outcomes):
            signal.send_robust(Publisher, **values)


async def atell(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> None:
    """Tell in asynchronous code: asynchronous receivers run in its loop, others where Django puts them."""
    if published.receivers or publish_failed.receivers:
        for signal, values in _told(rows, outcomes):
            await signal.asend_robust(Publisher, **values)


def _told(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> Iterable[tuple[Signal, dict[str, Any]]]:
    for row, outcome in zip(rows, outcomes, strict=True):
        removed = bool(row.wire[3].get("removed"))
        values = {"subject": row.subject, "content": row.wire[1], "fields": dict(row.wire[2]), "removed": removed}
        if isinstance(outcome, ClientError):
            yield publish_failed, values | {"error": outcome}
        else:
            yield published, values | {"position": outcome}
