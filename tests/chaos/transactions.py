"""A program that counts in transactions and publishes what it has counted to, with rollbacks and savepoints, as a web
worker does that may die at any step.

``python -m tests.chaos.transactions '{"name": …, "seed": …, "subjects": […], "die": [STEP, N]}'``. The counters are
rows of PostgreSQL, and what was committed is what they say, wherever this process dies: the messages ``SUBJECT=1`` to
``SUBJECT=COUNT`` of each subject, in that order. What must never be seen begins with ``never``. Many of the
transactions use another database as well, which may roll back alone. With ``die`` the process kills itself when it has
come to the step for the N-th time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import django

PAUSE_SECONDS = 0.005
AGAIN_SECONDS = 0.1
"""Until the next transaction where a connection was cut."""

STEPS = ("written", "savepoint", "ready", "committed")
"""A row was written; a savepoint was rolled back or released; the transaction is about to commit; it has, and nobody
was notified."""

OUTBOX, OTHER = "default", "other"
READY = "counting"


def content_of(subject: str, count: int) -> str:
    """What is published when a subject's counter stands there."""
    return f"{subject}={count}"


class Undo(Exception):
    """Rolls back."""


class Writer:
    """One transaction after the other."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._name: str = options["name"]
        self._subjects: list[str] = options["subjects"]
        self._chance = random.Random(options["seed"])
        self._step, self._left = options.get("die") or ("", 0)
        self._nevers = 0

    def run(self) -> None:
        """Until the end of this process; a transaction whose connection is cut is over, as the database sees it."""
        from django.db import DatabaseError, connections

        while True:
            time.sleep(PAUSE_SECONDS)
            try:
                with suppress(Undo):
                    self._transaction()
            except DatabaseError as error:
                _say(f"{type(error).__name__}: {str(error).splitlines()[:1]}")
                connections.close_all()
                time.sleep(AGAIN_SECONDS)

    def _at(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _never(self, subject: str) -> None:
        from realtime import publish

        self._nevers += 1
        publish(subject, f"never={self._name}={self._nevers}", using=OUTBOX)

    def _transaction(self) -> None:
        from django.db import transaction

        subject = self._chance.choice(self._subjects)
        if self._chance.random() < 0.1:
            self._alone(subject)
        around = transaction.atomic(using=OTHER) if self._chance.random() < 0.1 else nullcontext()
        with around, transaction.atomic(using=OUTBOX):
            transaction.on_commit(lambda: self._at("committed"), using=OUTBOX)
            count = self._counted(subject)
            with self._beside():
                count = self._publish(subject, count)
            if self._chance.random() < 0.3:
                with suppress(Undo), transaction.atomic(using=OUTBOX):
                    self._never(subject)
                    raise Undo
                self._at("savepoint")
            if self._chance.random() < 0.3:
                with transaction.atomic(using=OUTBOX):
                    count = self._publish(subject, count)
                self._at("savepoint")
            self._count(subject, count)
            self._at("ready")
            if self._chance.random() < 0.2:
                self._never(subject)
                raise Undo

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Now and then in a transaction of the other database, whose rollback takes nothing back of the outbox."""
        from django.db import connections, transaction

        if self._chance.random() < 0.6:
            yield
            return
        with suppress(Undo), transaction.atomic(using=OTHER):
            with connections[OTHER].cursor() as cursor:
                cursor.execute("INSERT INTO note (writer) VALUES (%s)", [self._name])
            yield
            if self._chance.random() < 0.5:
                raise Undo

    def _alone(self, subject: str) -> None:
        """In a transaction of the other database alone nothing can be published."""
        from django.db import transaction

        from realtime import publish

        with transaction.atomic(using=OTHER):
            try:
                publish(subject, f"never={self._name}=alone")
            except transaction.TransactionManagementError:
                return
            raise AssertionError("publish() took a transaction of another database for the outbox'")

    def _publish(self, subject: str, count: int) -> int:
        from realtime import publish

        publish(subject, content_of(subject, count + 1), using=OUTBOX)
        self._at("written")
        return count + 1

    def _counted(self, subject: str) -> int:
        """Where the counter stands, which nobody else moves until this transaction ends."""
        from django.db import connections

        with connections[OUTBOX].cursor() as cursor:
            cursor.execute("SELECT count FROM counter WHERE subject = %s FOR UPDATE", [subject])
            return int(cursor.fetchone()[0])

    def _count(self, subject: str, count: int) -> None:
        from django.db import connections

        with connections[OUTBOX].cursor() as cursor:
            cursor.execute("UPDATE counter SET count = %s WHERE subject = %s", [count, subject])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(options: dict[str, Any]) -> None:
    """Count until the end of this process."""
    django.setup()
    _say(READY)
    Writer(options).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
