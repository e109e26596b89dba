"""Django's development server with live data: its reloader, the sidecar beside it, and /ws on the same port.

It takes the place of Django's own command (realtime/apps.py); ``--no-sidecar`` is that command as it comes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.contrib.staticfiles.management.commands.runserver import Command as StaticFilesCommand
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.core.management.commands.runserver import Command as PlainCommand
from django.utils import autoreload
from django.utils.module_loading import import_string

from fastpath.client.control.client import Control
from fastpath.client.errors import ClientError
from realtime.conf import conf
from realtime.process.companion import Companion, CompanionFailed
from realtime.process.pages import lines, pages
from realtime.process.ports import PortTaken, resolve_listen
from realtime.web import serve

WITHOUT_WEB = "--without-web"
READY = "Ctrl-C ends everything"
_PID = "REALTIME_COMPANION_PID"
"""Says to the process that serves who runs beside the one that reloads it."""

_CHANGED = "REALTIME_COMPANION_CHANGED"
"""Variable with the file that is not empty where the code has changed and what runs beside it does not know yet."""

_Base: Any = StaticFilesCommand if apps.is_installed("django.contrib.staticfiles") else PlainCommand


class Command(_Base):
    """The sidecar, the rights' agent and the collector run beside the reloader, so that a reload ends none of them."""

    help = "Django's development server, the sidecar with all that it needs, and the relay at /ws of the same port."

    _is_ours = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [--no-sidecar], and Django's own arguments."""
        super().add_arguments(parser)
        parser.add_argument(
            "--no-sidecar",
            action="store_false",
            dest="sidecar",
            help="Django's own command: without the sidecar, and without the relay at /ws",
        )

    def run(self, **options: Any) -> None:
        """Serve until Ctrl-C; only the process that stays over reloads starts what runs beside it."""
        if not options["sidecar"] or os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
            super().run(**options)
            return
        with self._beside():
            super().run(**options)

    def inner_run(self, *arguments: Any, **options: Any) -> None:
        """Check and serve; Django's own, but for the server, which has threads of its own."""
        if options["sidecar"]:
            self._is_ours, self._has_signals = True, not options["use_reloader"]
            autoreload.file_changed.connect(_note_change)
            self.server_cls = self._server
            options["use_threading"] = False
        super().inner_run(*arguments, **options)

    def get_handler(self, *arguments: Any, **options: Any) -> Any:
        """Return the project's ASGI application, and static files as Django's command serves them."""
        if not options["sidecar"]:
            return super().get_handler(*arguments, **options)
        is_shown = settings.DEBUG or options.get("insecure_serving")
        with_static_files = options.get("use_static_handler") and is_shown
        return ASGIStaticFilesHandler(_application()) if with_static_files else _application()

    def on_bind(self, server_port: int) -> None:
        """Say where everything is: only pages that are there. The code can be loaded, so it is right for the rest."""
        super().on_bind(server_port)
        _reload_beside()
        if self._is_ours:
            host = {"0": "localhost", "0.0.0.0": "localhost", "::": "localhost"}.get(self.addr, self.addr)
            shown = f"[{host}]" if ":" in host else host
            rows = [*pages(f"http://{shown}:{server_port}"), ("relay", f"ws://{shown}:{server_port}/ws")]
            rows += [("WebSocket", f"ws://{conf.clients}/ws")] if conf.clients else []
            rows += [("publishers", conf.publishers)] if conf.publishers else []
            self.stdout.write("\n".join(lines(rows)))

    def _server(self, address: tuple[str, int], _handler: object, ipv6: bool = False) -> _Server:
        return _Server(address, ipv6, self._has_signals)

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Run what belongs beside the server; where it cannot run, say so and serve pages all the same."""
        if pid := _answering():
            self.stdout.write(f"Using the sidecar (pid {pid}) that answers at {conf.own_control}.")
            yield
            return
        try:
            companion = self._companion()
            companion.__enter__()
        except (CompanionFailed, ImproperlyConfigured, PortTaken, ValueError) as error:
            self.stderr.write(f"Without the sidecar, and so without live data:\n{error}")
            self.stderr.write("Pages are served all the same; start this command again when that is mended.\n")
            yield
            return
        self.stdout.write(f"The sidecar runs beside this at {conf.own_control}; it stays over reloads.")
        try:
            with NamedTemporaryFile(prefix="fastpath-changed-") as changed:
                os.environ[_PID], os.environ[_CHANGED] = str(companion.pid), changed.name
                yield
        finally:
            companion.__exit__()

    def _companion(self) -> Companion:
        # Both find the sidecar's ports by this, also where they are free ones.
        if (listen := resolve_listen(conf.listen)) != conf.listen:
            os.environ["FASTPATH_LISTEN"] = listen
        folders = [str(Path(sys.argv[0]).resolve().parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, folders))),
            "PYTHONUNBUFFERED": "1",
        }
        argv = [sys.executable, "-m", "django", "runrealtime", WITHOUT_WEB]
        return Companion(argv, environment, READY, self.stdout.write)


class _Server:
    """A server as Django's command expects one, around Daphne: an address that is taken is told as Django tells it."""

    def __init__(self, address: tuple[str, int], ipv6: bool, has_signals: bool) -> None:
        host, port = address
        self._socket = socket.create_server(
            ("" if host == "0" else host, port), family=socket.AF_INET6 if ipv6 else socket.AF_INET, backlog=128
        )
        self._has_signals = has_signals
        self._application: Any = None
        self.server_port = int(self._socket.getsockname()[1])

    def set_app(self, application: Any) -> None:
        """Set the application that answers."""
        self._application = application

    def serve_forever(self) -> None:
        """Serve until a signal, where signals come here; else until this process ends."""
        serve(self._application, self._socket.fileno(), has_signals=self._has_signals)


def _application() -> Any:
    """Return the application as `runrealtime` serves it; wrap one of Django's own that is not wrapped yet."""
    from realtime.asgi import wrap  # noqa: PLC0415 - it reads settings as it is imported

    named = str(getattr(settings, "ASGI_APPLICATION", None) or "realtime.asgi.application")
    application = import_string(named.replace(":", "."))
    return wrap(application) if type(application) is ASGIHandler else application


def _answering() -> int:
    """Return the pid of the sidecar that has the control socket already; 0: none."""
    try:
        with Control(conf.own_control, timeout_seconds=1) as control:
            return int(control.hello()["pid"])
    except (ClientError, ImproperlyConfigured):
        return 0


def _note_change(file_path: Path, **_: Any) -> None:
    """Note the change before this process ends for a reload: hooks, responders and the collector run the project's
    code, too."""
    if file_path.suffix == ".py" and (changed := os.environ.get(_CHANGED)):
        with suppress(OSError):
            Path(changed).write_text(f"{file_path}\n", encoding="utf-8")


def _reload_beside() -> None:
    """Restart them, if there is something new; code that cannot be loaded is told once, by the process that serves."""
    changed = Path(os.environ.get(_CHANGED, os.devnull))
    with suppress(OSError):
        if changed.is_file() and changed.stat().st_size:
            os.truncate(changed, 0)
            os.kill(int(os.environ[_PID]), signal.SIGHUP)
