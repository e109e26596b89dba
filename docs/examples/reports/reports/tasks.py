"""The tasks: what a worker does for minutes while a page waits."""

from __future__ import annotations

import time

from realtime import publish
from reports.celery import app

STEPS = 5


@app.task
def make(name: str) -> None:
    """Make a report in steps, and say after each how far it is: the same function as in a view."""
    for step in range(1, STEPS + 1):
        time.sleep(0.2)  # the work
        publish(f"/reports/{name}", f"{100 * step // STEPS} %")
