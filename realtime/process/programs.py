"""What a program that is started without manage.py needs first: the project's settings, and the server of an extra."""

from __future__ import annotations

import importlib.util
import os
import sys

NAME = "DJANGO_SETTINGS_MODULE"

WEB_EXTRA = "pip install 'django-fastpath[web]'"
"""What brings Daphne, which realtime.web is made of."""


def has_web() -> bool:
    """Whether realtime.web can be imported: who has a web server need not have Daphne as well."""
    return importlib.util.find_spec("daphne") is not None


def require_web(program: str) -> None:
    """End with 2 and a sentence where Daphne is not installed."""
    if not has_web():
        sys.stderr.write(f"{program}: its web server is Daphne, which is not installed: {WEB_EXTRA}\n")
        sys.exit(2)


def require_settings(program: str) -> None:
    """End with 2 and a sentence where nobody has said which project's settings are meant: none are taken instead."""
    if not os.environ.get(NAME):
        sys.stderr.write(
            f"{program}: {NAME} is not set: set it to your project's settings, "
            f"as in {NAME}=mysite.settings python -m {program}\n"
        )
        sys.exit(2)
