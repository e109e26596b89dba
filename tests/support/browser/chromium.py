"""Which Chromium the tests drive, and how."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
