"""Look at what the sidecar's audit has written down."""

from __future__ import annotations

import os
import re
import sys
import time
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_pattern
from realtime.conf import conf
from realtime.export.audit_files import Event, Trail, Wanted, describe

_LOOK_SECONDS = 0.2
_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_KINDS = ("access", "message", "cache", "statistics")


class Command(BaseCommand):
    """``tail`` shows the newest events, ``search`` all that are asked for."""

    help = "Show what FASTPATH_AUDIT has written down: the newest events (tail), or those asked for (search)."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """tail [-f] [-n N], search [--since T] [--until T]; both: what is wanted, --json, --folder."""
        commands = parser.add_subparsers(dest="command", required=True)
        tail = commands.add_parser("tail", help="the newest events, and with -f those that follow")
        tail.add_argument("-n", "--lines", type=int, default=20, help="how many (20)")
        tail.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
        search = commands.add_parser("search", help="all events that are asked for, oldest first")
        for name, which in (("since", "from then on"), ("until", "before then")):
            search.add_argument(
                f"--{name}",
                default="",
                metavar="TIME",
                help=f"{which}: 2026-11-22, 2026-11-22T09:30, 30m (ago), 2h, 7d",
            )
        for each in (tail, search):
            each.add_argument("--kind", choices=_KINDS, default="")
            each.add_argument("--event", default="", help="such as connected, denied, revoked, published")
            each.add_argument("--user", help='a user\'s name; "" is anonymous')
            each.add_argument("--subject", default="", metavar="PATTERN", help="a subject or a pattern: /stocks/**")
            each.add_argument("--address", default="", help="a client's address")
            each.add_argument("--connection", default="", help="0.4711.12, 0.4711.p3 or django, as the events say")
            each.add_argument("--json", action="store_true", help="the lines as they are in the files")
            each.add_argument("--folder", default="", help='instead of REALTIME["AUDIT_FOLDER"]')

    def handle(self, *_: Any, **options: Any) -> None:
        """Print the events; lines that are none are counted at the end."""
        folder = options["folder"] or conf.audit_folder
        trail = Trail(folder)
        self._json = options["json"]
        try:
            wanted = _wanted(options)
            if options["command"] == "search":
                for event in trail.search(wanted):
                    self._show(event)
            else:
                for event in trail.newest(options["lines"], wanted):
                    self._show(event)
                if options["follow"]:
                    for event in trail.follow(wanted, _wait):
                        self._show(event)
        except BrokenPipeError:  # such as `… | head`: nobody reads any more, nor what Python still has at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        except OSError as error:
            raise CommandError(
                f"{error}: is FASTPATH_AUDIT on, and FASTPATH_AUDIT_FOLDER the same folder, which this user may read?"
            ) from None
        except KeyboardInterrupt:
            pass
        if trail.bad:
            self.stderr.write(f"{trail.bad} lines were no events and have been left out")

    def _show(self, event: Event) -> None:
        self.stdout.write(msgspec.json.encode(event).decode() if self._json else describe(event))
        self.stdout.flush()


def _wanted(options: dict[str, Any]) -> Wanted:
    if options["subject"]:
        try:
            check_pattern(options["subject"])
        except InvalidSubject as error:
            raise CommandError(f"--subject: {error}") from None
    keys = ("kind", "event", "user", "subject", "address", "connection")
    times = {name: _time(name, options.get(name, "")) for name in ("since", "until")}
    return Wanted(**{key: options[key] for key in keys}, **times)


def _time(name: str, text: str) -> str:
    """Return a time as it is written in the files; one without a zone is of Django's."""
    if not text:
        return ""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            moment = timezone.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            day = parse_date(text)
            moment = datetime(day.year, day.month, day.day) if day else parse_datetime(text)  # noqa: DTZ001 - below
    except (ValueError, OverflowError) as error:
        raise CommandError(f"--{name}: {text!r}: {error}") from None
    if moment is None:
        raise CommandError(f"--{name}: {text!r} is no time: write 2026-11-22, 2026-11-22T09:30, or 30m, 2h, 7d")
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _wait() -> bool:
    time.sleep(_LOOK_SECONDS)
    return True
