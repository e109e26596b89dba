"""The worker, until SIGTERM: `celery -A reports worker`, in one process."""

from __future__ import annotations

from reports import celery_app

celery_app.worker_main(["worker", "--pool", "solo", "--loglevel", "INFO", "--without-gossip", "--without-mingle"])
