"""Django's command line for this project."""

from __future__ import annotations

import os
import sys

try:
    from django.core.management import execute_from_command_line
except ImportError:
    sys.exit("Django is not installed here: run `make setup` and use .venv/bin/python manage.py …")


def main() -> None:
    """Run a management command with realtime.settings, unless DJANGO_SETTINGS_MODULE names others."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "realtime.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
