"""python -m realtime.jmx [--listen jmx://HOST:PORT] [--password-file FILE] (docs/access.md)."""

from __future__ import annotations

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "realtime.settings")
django.setup()

from realtime.jmx.serving import main  # noqa: E402 - it needs the apps

sys.exit(main())
