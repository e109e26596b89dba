"""The project's settings with MariaDB in place of SQLite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from realtime.settings import *  # noqa: F403

# Its driver is installed apart (requirements-mariadb.txt).
sys.path.append(str(Path(sys.prefix) / "mariadb"))

import pymysql

# Django asks for mysqlclient, which pip has to compile; this one is Python alone.
pymysql.install_as_MySQLdb()

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": os.environ["TEST_MARIADB_SOCKET"],
        "USER": os.environ.get("TEST_MARIADB_USER", "root"),
        "NAME": os.environ.get("REALTIME_DATABASE", "mysql"),
        "TEST": {"NAME": f"test_{os.getpid()}", "CHARSET": "utf8mb4"},
    }
}
