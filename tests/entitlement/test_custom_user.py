"""A project's own user model: other names of table, columns and groups, and UUIDs for keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_custom_user_model(tmp_path):
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.support.entitlement.people.settings",
        "PEOPLE_DATABASE": str(tmp_path / "db.sqlite3"),
        "PYTHONPATH": str(root),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.entitlement.people.story"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.endswith("told to the end\n"), done.stdout + done.stderr
