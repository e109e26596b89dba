"""Celery's application is there wherever Django is, as Celery's own guide has it."""

from reports.celery import app as celery_app

__all__ = ["celery_app"]
