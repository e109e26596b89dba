"""The worker, until SIGTERM: `celery -A reports worker`, in one process."""

from __future__ import annotations

from reports.celery import app

app.worker_main(["worker", "--pool", "solo", "--loglevel", "INFO", "--without-gossip", "--without-mingle"])
