"""python -m realtime.reloading: the web server of `runrealtime --reload`, with realtime.web's options.

It watches what it has loaded, as Django's runserver does, and ends with 3 when that changes, to be started again by the
supervisor. Code that cannot be loaded is told once, and it waits until that is mended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.urls import get_resolver
from django.utils import autoreload
from django.utils.module_loading import import_string

from realtime.process.programs import require_settings

CHANGED = 3
"""The status that asks to be started again, as between the two processes of Django's runserver."""

WAITING = "waiting for that to be mended"


class CodeWatch(autoreload.StatReloader):  # type: ignore[misc]
    """Django's own, which calls ``changed`` with the file instead of ending the process from its thread.

    Templates and translations are read anew by Django's own receivers, without a restart.
    """

    def __init__(self, changed: Callable[[Path], None]) -> None:
        super().__init__()
        self._changed = changed

    def wait_for_apps_ready(self, *_: Any) -> bool:
        """Return True at once: the apps are ready, or will not be before something changes."""
        return True

    def tick(self) -> Iterator[None]:
        """Look once, and say so: what changes from now on is seen."""
        looks = super().tick()
        yield next(looks)
        sys.stdout.write("watching for changes\n")
        sys.stdout.flush()
        yield from looks

    def notify_file_changed(self, path: Path) -> None:
        """Restart, unless a receiver has taken it in; the first file is enough."""
        answers = autoreload.file_changed.send(sender=self, file_path=path)
        if not self.should_stop and not any(answer for _, answer in answers):
            self.stop()
            self._changed(path)


class ReloadingWeb:
    """The web server until its code changes."""

    def __init__(self) -> None:
        self._is_changed = False

    def run(self) -> int:
        """Load and serve; the status to end with."""
        try:
            _load()
        except Exception as error:
            # What the project's settings and checks say of themselves needs no trace.
            sys.stderr.write(f"{error}\n" if isinstance(error, CommandError) else traceback.format_exc())
            sys.stderr.write(f"{WAITING}\n")
            CodeWatch(_say).run_loop()  # without what the apps would have watched besides: the settings may be broken
            return CHANGED
        from realtime import web  # noqa: PLC0415 - it reads the settings, which may be what is broken

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(CHANGED if self._is_changed else 0))  # until it serves
        threading.Thread(target=CodeWatch(self._end).run, args=(threading.main_thread(),), daemon=True).start()
        web.run()
        return CHANGED if self._is_changed else 0

    def _end(self, path: Path) -> None:
        """End in order, as if told to: relayed connections are closed with a code that says to come back."""
        _say(path)
        self._is_changed = True
        os.kill(os.getpid(), signal.SIGTERM)


@autoreload.check_errors
def _load() -> None:
    """Load all that may be broken, so that it is told now, and watched."""
    django.setup()
    call_command("check")
    from realtime.requests.responders import discover  # noqa: PLC0415 - it needs the settings

    get_resolver().urlconf_module  # noqa: B018 - it is imported so
    import_string(str(getattr(settings, "ASGI_APPLICATION", None) or "realtime.asgi.application").replace(":", "."))
    discover()


def _say(path: Path) -> None:
    sys.stdout.write(f"{path} changed, reloading.\n")
    sys.stdout.flush()


def main() -> None:
    """Run with the arguments of the command line."""
    require_settings("realtime.reloading")
    status = ReloadingWeb().run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of the project's and the one that watches may be amid something


if __name__ == "__main__":
    main()
