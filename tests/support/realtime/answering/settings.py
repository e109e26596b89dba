"""The project's settings with that app."""

from realtime.settings import *  # noqa: F403
from realtime.settings import INSTALLED_APPS as _APPS

INSTALLED_APPS = [*_APPS, "tests.support.realtime.answering"]
