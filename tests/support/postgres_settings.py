"""The project's settings with PostgreSQL in place of SQLite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from realtime.settings import *  # noqa: F403

# Its driver is installed apart (requirements-postgres.txt).
sys.path.append(str(Path(sys.prefix) / "postgres"))

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["TEST_POSTGRES_HOST"],
        "USER": os.environ.get("TEST_POSTGRES_USER", "postgres"),
        "NAME": os.environ.get("REALTIME_DATABASE", "postgres"),
        "TEST": {"NAME": f"test_{os.getpid()}"},
    }
}
