"""Which Chromium the tests drive, and how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext

from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A context whose pages wait as long as every test does, for what they click as for what they await."""
    context = browser.new_context(**options)
    # Not less than Playwright's own: a page that is opened loads all that is in it.
    context.set_default_timeout(max(30, PATIENCE_SECONDS) * 1000)
    return context
