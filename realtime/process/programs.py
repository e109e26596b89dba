"""What a program that is started without manage.py needs first: the name of the project's settings."""

from __future__ import annotations

import os
import sys

NAME = "DJANGO_SETTINGS_MODULE"


def require_settings(program: str) -> None:
    """End with 2 and a sentence where nobody has said which project's settings are meant: none are taken instead."""
    if not os.environ.get(NAME):
        sys.stderr.write(
            f"{program}: {NAME} is not set: set it to your project's settings, "
            f"as in {NAME}=mysite.settings python -m {program}\n"
        )
        sys.exit(2)
