"""Start and supervise the web server, the sidecar, its rights agent and, with --demo, the Spark jobs."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from entitlement import tokens
from entitlement.following.agent import follow
from entitlement.keys import KeysError
from entitlement.passwords import PasswordChecks
from fastpath.client.control.client import Control
from fastpath.client.control.nodes import label
from fastpath.client.errors import ClientError
from fastpath.engine.names import keeps_journal
from realtime import reloading
from realtime.conf import FEED, LISTEN, conf, local_address
from realtime.hooks import Hook
from realtime.management.commands import realtime_outbox, realtime_respond
from realtime.management.commands.realtime_hooks import READY
from realtime.process import hook_runner
from realtime.process.aside import aside
from realtime.process.pages import lines, pages
from realtime.process.ports import PortTaken, leave_taken, resolve_listen, try_listen, try_port
from realtime.process.supervisor import Child, StartFailed, Stopped, Supervisor
from realtime.requests.responders import discover
from realtime.stats.service import keep_collecting

_PACKAGES = Path(__file__).resolve().parents[3]
_FEED_TOKEN_SECONDS = 30 * 24 * 3600
_THREAD_STOP_SECONDS = 5.0
"""Seconds that the threads of the agents and of the collector may take to end."""

_SIDECAR_STOP_SECONDS = 10
"""Seconds that the sidecar may take to stop beyond its drain: its own deadlines are shorter."""

_DRAIN_SECONDS = 10
"""FASTPATH_DRAIN_SECONDS, when it is not set."""


class Command(BaseCommand):
    """All in the foreground of this session: SIGINT and SIGTERM end everything, SIGHUP restarts the web server."""

    help = "Run the web server and the sidecar together, supervised. FASTPATH_* variables reach the sidecar."
    _pages: list[tuple[str, str]] | None = None
    """Names and paths of the pages that start-up names; None before the checks."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [--demo [--recording FILE]] [--host H] [--port P] [--without-web | --reload]."""
        parser.add_argument("--host", default="127.0.0.1", help="address of the web server (0.0.0.0: all)")
        parser.add_argument("--port", type=int, default=8000, help="port of the web server")
        parser.add_argument(
            "--without-web", action="store_true", help="everything but the web server, which is another's, as runserver"
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="while you develop: the web server, hooks, responders and the outbox begin anew when code changes; "
            "the sidecar and its sockets stay",
        )
        if not _has_demo():
            parser.set_defaults(demo=False, recording=None)
            return
        parser.add_argument(
            "--demo",
            action="store_true",
            help="the demonstration as well: its users and rules, and the Spark jobs that publish",
        )
        parser.add_argument(
            "--recording",
            type=Path,
            metavar="FILE",
            help="with --demo: replay this recording again and again instead of the Spark jobs "
            "(docs/develop/recording.md)",
        )

    def check(self, *arguments: Any, **options: Any) -> None:
        """Check as every command does, but aside: checks import the project's views, which the web server needs."""

        def question() -> list[tuple[str, str]]:
            super(Command, self).check(*arguments, **options)
            return pages("")

        self._pages = aside(question)

    def handle(self, *_: Any, **options: Any) -> None:
        """Check what would fail later, start everything in order, supervise until a signal."""
        _refuse_recording(options["recording"], options["demo"])
        if options["reload"] and options["without_web"]:
            raise CommandError("--reload watches the code of the web server: leave out --without-web")
        _refuse_disagreement()
        with_web = not options["without_web"]
        if self._pages is None:  # nobody has asked for the checks
            self._pages = aside(lambda: pages(""))
        _refuse_unmigrated()
        host, port = options["host"], self._free_ports(options["host"], options["port"], with_web)
        _make_control_folder()
        _refuse_second_sidecar()
        if options["demo"]:
            os.environ["REALTIME_DEMO"] = "1"
            model = get_user_model()
            if not model._default_manager.filter(**{model.USERNAME_FIELD: FEED}).exists():
                call_command("realtime_demo", stdout=self.stdout)
        sidecar, web = _sidecar(), _web(host, port, options["reload"]) if with_web else None
        hooks, responders = _hooks(), _responders()
        feed = (_replay(options["recording"]) if options["recording"] else _feed()) if options["demo"] else None
        outbox = _outbox()
        stop = threading.Event()
        threads = [
            threading.Thread(target=run, args=(conf.controls, stop), name=name, daemon=True)
            for name, run in (("agents", follow), *([("collector", keep_collecting)] if _has_statistics() else []))
        ]
        try:
            with Supervisor(self._say) as supervisor:
                supervisor.start(sidecar)
                for thread in threads:
                    thread.start()
                PasswordChecks(stop).start(conf.controls)
                if hooks is not None:
                    supervisor.start(hooks)
                if responders is not None:
                    supervisor.start(responders)
                if feed is not None:  # it needs the longest, so it starts beside the web server
                    supervisor.start(feed, wait=False)
                if outbox is not None:
                    supervisor.start(outbox, wait=False)
                for reader in _for_readers():
                    supervisor.start(reader, wait=False)
                if web is not None:
                    supervisor.start(web)
                supervisor.say(_summary(host, port, self._pages if web else [], sidecar, web, feed))
                supervisor.run()
                supervisor.say("stopping")
                stop.set()
        except Stopped:
            pass
        except StartFailed as error:
            raise CommandError(str(error)) from None
        finally:
            stop.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join(_THREAD_STOP_SECONDS)
        self._say("stopped")

    def _free_ports(self, host: str, port: int, with_web: bool) -> int:
        """Return the web server's port; the sidecar's go to FASTPATH_LISTEN, which every child and conf.py read."""
        web = _try_web(host, port) if with_web else port
        _try_statistics()
        listen = conf.listen
        if listen == LISTEN:  # nobody has asked for MQTT by name, and a broker of its own often runs on a machine
            listen, left = leave_taken(listen, "mqtt")
            for why in left:
                self._say(f"without MQTT: {why}; FASTPATH_LISTEN={listen},mqtt://127.0.0.1:PORT chooses another")
        try:
            os.environ["FASTPATH_LISTEN"] = listen = resolve_listen(listen)
            try_listen(listen)
        except (PortTaken, ValueError) as error:
            raise CommandError(
                f"{error}: stop that program, or choose other ports with FASTPATH_LISTEN={listen}"
            ) from None
        return web

    def _say(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _has_demo() -> bool:
    """Return True where the demonstration is: it is a part of this repository, not of what is installed into
    projects."""
    return importlib.util.find_spec("realtime.demo") is not None


def _refuse_disagreement() -> None:
    """Raise CommandError unless the sidecar and Django use the same socket, secret and keys."""
    try:
        token_keys = conf.token_keys
    except KeysError as error:
        raise CommandError(f'REALTIME["TOKEN_KEYS"]: {error}') from None
    for name, value, key in (
        ("FASTPATH_CONTROL", conf.own_control, "CONTROL"),
        ("FASTPATH_TOKEN_SECRET", conf.token_secret, "TOKEN_SECRET"),
        *([("FASTPATH_TOKEN_KEYS", token_keys, "TOKEN_KEYS")] if token_keys else []),
    ):
        if os.environ.get(name, value) != value:
            raise CommandError(
                f'{name} of the environment is not REALTIME["{key}"] of the settings: set one of '
                "them, or both to the same"
            )


def _refuse_recording(recording: Path | None, with_demo: bool) -> None:
    if recording is None:
        return
    if not with_demo:
        raise CommandError("--recording is what --demo shows: give both")
    try:
        with recording.open("rb"):
            pass
    except OSError as error:
        raise CommandError(f"--recording {recording}: {error.strerror}") from None


def _refuse_unmigrated() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("the database is not up to date: run `python manage.py migrate` first")


def _try_web(host: str, port: int) -> int:
    try:
        return try_port(host, port)
    except PortTaken as error:
        raise CommandError(f"{error}: stop that program, or choose another port with --port") from None


def _try_statistics() -> None:
    try:
        for address in (conf.stats_listen, conf.jmx):
            if address is not None:
                try_port(address.host, address.port)
    except (PortTaken, ImproperlyConfigured) as error:
        raise CommandError(f'{error}: see REALTIME["STATS_LISTEN"] and REALTIME["JMX"]') from None


def _make_control_folder() -> None:
    """Make the folder of the control socket for this user alone: whoever can open the socket is trusted."""
    folder = Path(conf.own_control).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"the control socket's folder {folder} cannot be made: {error.strerror}") from None


def _refuse_second_sidecar() -> None:
    try:
        with Control(conf.own_control, timeout_seconds=1) as control:
            pid = control.hello()["pid"]
    except ClientError:
        return
    raise CommandError(
        f"a sidecar (pid {pid}) already answers at {conf.own_control}: stop it, or set FASTPATH_CONTROL to another path"
    )


def _environment(**more: str) -> dict[str, str]:
    """Return this process's environment, with the folders that a child imports from."""
    folders = [str(_PACKAGES), sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    paths = os.pathsep.join(dict.fromkeys(folder for folder in folders if folder))
    return os.environ | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"} | more


def _sidecar() -> Child:
    given = {
        "FASTPATH_CONTROL": conf.own_control,
        "FASTPATH_TOKEN_SECRET": conf.token_secret,
        "FASTPATH_MODE": os.environ.get("FASTPATH_MODE", "rules"),
    }
    hook = _hook()
    if hook is not None:
        given["FASTPATH_HOOKS"] = os.environ.get("FASTPATH_HOOKS") or ",".join(hook.events())
    elif given["FASTPATH_MODE"] == "custom":
        raise CommandError('FASTPATH_MODE=custom needs a hook: name its class in REALTIME["HOOK"]')
    if conf.token_keys:
        given["FASTPATH_TOKEN_KEYS"] = conf.token_keys
    if os.environ.get("FASTPATH_AUDIT") and conf.audit_folder:
        given["FASTPATH_AUDIT_FOLDER"] = conf.audit_folder
    if conf.data and keeps_journal(os.environ.get("FASTPATH_ENGINE", "")):
        # What was acknowledged outlives a sidecar that is killed by this; other engines keep their messages elsewhere.
        given |= {"FASTPATH_DATA": conf.data, "FASTPATH_JOURNAL": os.environ.get("FASTPATH_JOURNAL", "interval")}
    return Child(
        "sidecar",
        [sys.executable, "-m", "fastpath"],
        lambda: _environment(**given),
        ready="ready {",
        restart_seconds=0,
        stop_seconds_max=_SIDECAR_STOP_SECONDS + _drain_seconds(),
    )


def _hook() -> Hook | None:
    try:
        return hook_runner.load()
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None


def _hooks() -> Child | None:
    """Return the process that answers the sidecar's questions and hears its events, if the settings name any."""
    if not conf.hook and not conf.listeners:
        return None
    return Child(
        "hooks",
        [sys.executable, "-m", "django", "realtime_hooks"],
        lambda: _environment(DJANGO_SETTINGS_MODULE=os.environ["DJANGO_SETTINGS_MODULE"]),
        ready=READY,
        on_hangup=True,
    )


def _responders() -> Child | None:
    """Return the process that answers requests, if an app has responders."""
    try:
        if not len(discover()):
            return None
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None
    return Child(
        "respond",
        [sys.executable, "-m", "django", "realtime_respond"],
        lambda: _environment(DJANGO_SETTINGS_MODULE=os.environ["DJANGO_SETTINGS_MODULE"]),
        ready=realtime_respond.READY,
        on_hangup=True,
    )


def _has_statistics() -> bool:
    """Tell whether to collect the statistics of all nodes: the operator may want none."""
    return os.environ.get("FASTPATH_STATISTICS", "").lower() not in ("0", "off", "false", "no")


def _outbox() -> Child | None:
    """Return the process that sends the outbox, if there is one."""
    try:
        if not conf.outbox:
            return None
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None
    return Child(
        "outbox",
        [sys.executable, "-m", "django", "realtime_outbox"],
        lambda: _environment(DJANGO_SETTINGS_MODULE=os.environ["DJANGO_SETTINGS_MODULE"]),
        ready=realtime_outbox.READY,
        on_hangup=True,
    )


def _for_readers() -> list[Child]:
    """Return the processes that serve the statistics on addresses of their own, as far as the settings name any."""

    def environment() -> dict[str, str]:
        return _environment(DJANGO_SETTINGS_MODULE=os.environ["DJANGO_SETTINGS_MODULE"])

    found = []
    if conf.stats_listen is not None:
        argv = [sys.executable, "-m", "realtime.outside"]
        found.append(Child("figures", argv, environment, ready="Listening on TCP address", on_hangup=True))
    if conf.jmx is not None:
        found.append(
            Child("jmx", [sys.executable, "-m", "realtime.jmx"], environment, ready="MBeans at", on_hangup=True)
        )
    return found


def _drain_seconds() -> int:
    """Return how long the sidecar may send its clients elsewhere, in seconds; what is no number the sidecar refuses
    itself."""
    given = os.environ.get("FASTPATH_DRAIN_SECONDS", "")
    return int(given) if given.isdecimal() else _DRAIN_SECONDS


def _web(host: str, port: int, is_reloading: bool) -> Child:
    application = str(getattr(settings, "ASGI_APPLICATION", None) or "realtime.asgi:application")
    if ":" not in application:
        application = ":".join(application.rsplit(".", 1))
    # Daphne's own limit would end a relayed connection after a day.
    module = "realtime.reloading" if is_reloading else "realtime.web"
    argv = [sys.executable, "-m", module, "-b", host, "-p", str(port), "--websocket_timeout", "-1", application]
    return Child(
        "web",
        argv,
        lambda: _environment(DJANGO_SETTINGS_MODULE=os.environ["DJANGO_SETTINGS_MODULE"]),
        ready="Listening on TCP address",
        on_hangup=True,
        changed_status=reloading.CHANGED if is_reloading else None,
        waiting=reloading.WAITING if is_reloading else "",
    )


def _feed() -> Child:
    return Child(
        "spark",
        [sys.executable, "-m", "spark.jobs.live", "--url", conf.publishers],
        # Else each of some hundred threads of Java keeps an arena of the C library's to itself.
        lambda: _environment(REALTIME_PUBLISH_TOKEN=_feed_token(), MALLOC_ARENA_MAX="2"),
        ready="publishing to",
    )


def _replay(recording: Path) -> Child:
    words = ["replay", str(recording.resolve()), "--url", conf.publishers, "--loop", "0"]
    return Child(
        "replay",
        [sys.executable, "-m", "fastpath.recording", *words],
        lambda: _environment(RECORDING_TOKEN=_feed_token()),
        ready="replaying",
    )


def _feed_token() -> str:
    token, _ = tokens.mint(tokens.user_named(FEED), seconds=_FEED_TOKEN_SECONDS)
    return token


def _summary(
    host: str, port: int, paths: list[tuple[str, str]], sidecar: Child, web: Child | None, feed: Child | None
) -> str:
    shown = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)
    site = f"http://{shown}:{port}"
    rows = [
        *((name, site + path) for name, path in paths),
        ("WebSocket", f"ws://{conf.clients}/ws" if conf.clients else conf.listen),
        ("publishers", conf.publishers or conf.listen),
        *([("MQTT", things)] if (things := local_address(conf.listen, "mqtt")) else []),
        *([("statistics", conf.stats_listen.url("/api/stats/"))] if conf.stats_listen else []),
        *([("MBeans", conf.jmx.mbeans)] if conf.jmx else []),
        ("control", ", ".join(map(label, conf.controls))),
        (
            "processes",
            f"runrealtime {os.getpid()}, sidecar {sidecar.pid}"
            + (f", web {web.pid}" if web else "")
            + (f", {feed.name} {feed.pid}" if feed else "")
            + (" (its first prices come in about 20 s)" if feed and feed.name == "spark" else ""),
        ),
    ]
    if feed is not None:
        from realtime.demo import seed  # noqa: PLC0415 - not there in other projects

        rows.append(("users", f'admin, {", ".join(seed.MEMBERS)}; password "{seed.PASSWORD}"'))
    end = (
        f"Ctrl-C ends everything; `kill -HUP {os.getpid()}` restarts {'the web server' if web else 'your code'} alone."
    )
    if web and web.changed_status is not None:
        end = "Ctrl-C ends everything; what changes of your code is reloaded."
    begin = "Everything is running." if web else "Everything is running, but no web server."
    return "\n".join(["", begin, *lines(rows), f"  {end}", ""])
