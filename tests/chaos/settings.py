"""The project's settings with the outbox in PostgreSQL, and another database, of SQLite, beside it."""

from __future__ import annotations

import os

from tests.support.postgres_settings import *  # noqa: F403
from tests.support.postgres_settings import DATABASES

DATABASES["other"] = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.environ["CHAOS_OTHER_DATABASE"],
    "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
}
