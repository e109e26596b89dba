"""Transactions that count and publish what they have counted to, with rollbacks and savepoints, until it is killed.

    python -m tests.support.realtime.outbox_writer SEED COUNTERS

A counter is a group of Django's, named ``NUMBER:COUNT``, and is published to ``/counters/NUMBER``: what was committed
is known by its name, wherever this process dies. What is rolled back publishes ``never``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import django

PAUSE_SECONDS = 0.005
"""Between two transactions: on SQLite others would hardly get their turn."""


class Undo(Exception):
    """Rolls back."""


def count_on(number: int, chance: random.Random) -> None:
    """One transaction."""
    from django.contrib.auth.models import Group
    from django.db import transaction
    from django.db.models import F

    from realtime import publish

    subject = f"/counters/{number}"
    with transaction.atomic():
        counter = Group.objects.filter(pk=number)
        counter.update(name=F("name"))  # which locks it
        count = int(counter.get().name.partition(":")[2]) + 1
        publish(subject, str(count))
        if chance.random() < 0.3:
            with suppress(Undo), transaction.atomic():
                publish(subject, "never")
                raise Undo
        if chance.random() < 0.3:
            with transaction.atomic():
                count += 1
                publish(subject, str(count))
        counter.update(name=f"{number}:{count}")
        if chance.random() < 0.2:
            publish(subject, "never")
            raise Undo


def count_until(done: Callable[[], bool], counters: int, chance: random.Random) -> None:
    """Count, one of the counters after the other, until it is done."""
    while not done():
        time.sleep(PAUSE_SECONDS)
        with suppress(Undo):
            count_on(chance.randint(1, counters), chance)


def main(seed: str, counters: str) -> None:
    """Count until the end of this process."""
    django.setup()
    sys.stdout.write("counting\n")
    sys.stdout.flush()
    count_until(lambda: False, int(counters), random.Random(seed))


if __name__ == "__main__":
    main(*sys.argv[1:])
