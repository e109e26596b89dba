"""python -m realtime.jmx [--listen jmx://HOST:PORT] [--password-file FILE] (docs/operate/figures.md)."""

from __future__ import annotations

import sys

import django

from realtime.process.programs import require_settings

require_settings("realtime.jmx")
django.setup()

from realtime.jmx.serving import main  # noqa: E402 - it needs the apps

sys.exit(main())
