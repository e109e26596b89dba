"""Run one of the Spark jobs against this project: its address, a token of its own, its folders."""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from entitlement import keys, tokens
from entitlement.permissions.asking import PermissionsError
from realtime.conf import FEED, conf
from realtime.process.supervisor import Child, Supervisor

_PACKAGES = Path(__file__).resolve().parents[3]
_LIFELINE = _PACKAGES / "realtime" / "process" / "lifeline.py"
_TOKEN_SECONDS = 30 * 24 * 3600
_FOR_EVER_SECONDS = 1e9

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TOKEN = "REALTIME_PUBLISH_TOKEN"  # noqa: S105 - the variable's name
URL = "REALTIME_PUBLISH_URL"
CONF = "REALTIME_SPARK_CONF"
_SPARK = {
    "packages": (
        "spark.jars.packages",
        "libraries for Java from Maven's repository with what they need, GROUP:NAME:VERSION",
    ),
    "repositories": ("spark.jars.repositories", "where to look for --packages beside Maven's own"),
    "jars": ("spark.jars", "libraries for Java, their files"),
    "files": ("spark.files", "files for the working folders of the executors"),
}
"""Options that spark-submit has too: the setting of Spark that each is, and what it names."""


class Command(BaseCommand):
    """The jobs; without a name the command lists them, and what follows a name is the job's own: `spark_job bars
    --help`."""

    help = "Run a Spark job against this project: with its publisher port, a token minted for it, and its folders."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [--user U] [--url URL] [--master URL] [OPTION OF SPARK …] [--keep] [NAME [ARGUMENT …]]."""
        parser.add_argument("--user", help=f"whom the token is for (default: {FEED})")
        parser.add_argument("--url", help="publisher ports, with commas (default: those of the settings)")
        parser.add_argument("--master", help="Spark's master, such as spark://host:7077 (default: this machine)")
        for option, (setting, what) in _SPARK.items():
            parser.add_argument(f"--{option}", metavar="LIST", help=f"{what}; with commas ({setting})")
        parser.add_argument(
            "--conf", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="a setting of Spark's"
        )
        parser.add_argument(
            "--keep", action="store_true", help="start it again, with a new token, whenever it ends, until a signal"
        )
        parser.add_argument("name", nargs="?", help="the job; without it they are listed")
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the job's own; --help tells them")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the job and end with its exit status."""
        known = jobs()
        name = options["name"]
        if name is None:
            width = max(map(len, known), default=0)
            self.stdout.write("\n".join(f"{job:{width}}  {words}" for job, words in sorted(known.items())))
            return
        if name not in known:
            raise CommandError(f"there is no job {name!r}; there are {', '.join(sorted(known))}")
        argv = [sys.executable, "-m", f"spark.jobs.{name}", *options["arguments"]]
        if {"-h", "--help"} & set(options["arguments"]):
            sys.exit(_run(argv, _paths()))
        settings = {setting: options[option] for option, (setting, _) in _SPARK.items() if options[option]}
        settings |= dict(options["conf"])

        def made() -> Mapping[str, str]:
            return environment(options["user"], options["url"], options["master"], settings)

        given = made()  # what is wrong is said now
        if options["keep"]:
            self._keep(Child(name, argv, made))
        else:
            sys.exit(_run(argv, given))

    def _keep(self, child: Child) -> None:
        with Supervisor(lambda line: print(line, flush=True)) as supervisor:  # noqa: T201 - what the job says
            supervisor.start(child, wait=False)
            supervisor.run()


def jobs() -> dict[str, str]:
    """Return the jobs by name, each with the first sentence of what its module says of itself.

    The modules are read, not imported: the web side has no Spark.
    """
    found = {}
    for path in (_PACKAGES / "spark" / "jobs").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(part, ast.If) and "__main__" in ast.dump(part.test) for part in tree.body):
            words = (ast.get_docstring(tree) or "").splitlines() or [""]
            found[path.stem] = words[0].partition(": `python")[0].rstrip(".")
    return found


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is no setting of Spark's: spark.NAME=VALUE")
    return name, value


def environment(
    user: str | None, url: str | None, master: str | None, settings: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return what the job finds in its environment, `settings` are Spark's; raise CommandError. A token that is there
    already stays, unless a user is named."""
    url = url or os.environ.get(URL) or conf.publish_url
    if not url:
        raise CommandError('there is no plain publisher port: name one with --url, or in REALTIME["PUBLISHERS"]')
    given = {URL: url}
    if user or TOKEN not in os.environ:
        try:
            given[TOKEN], _ = tokens.mint(tokens.user_named(user or FEED), seconds=_TOKEN_SECONDS)
        except (tokens.UnknownUser, tokens.MintError, keys.KeysError, PermissionsError) as error:
            raise CommandError(f"{error} --user names the one who is to publish.") from None
    if master:
        given["REALTIME_SPARK_MASTER"] = master
    if settings:
        given[CONF] = json.dumps(json.loads(os.environ.get(CONF) or "{}") | settings)
    if conf.audit_folder:
        given["REALTIME_AUDIT_FOLDER"] = conf.audit_folder
    return _paths() | given


def _paths() -> dict[str, str]:
    folders = [str(_PACKAGES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(folders)), "PYTHONUNBUFFERED": "1"}


def _run(argv: list[str], given: Mapping[str, str]) -> int:
    """Run until it ends, and pass on the signals that are to end us; its exit status, as a shell would tell it."""
    lifeline = [sys.executable, "-I", "-S", str(_LIFELINE), str(os.getpid())]
    process: subprocess.Popen[bytes] | None = None

    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        told.append(number)
        if process is not None:
            process.terminate()

    handlers = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        process = subprocess.Popen([*lifeline, *argv], env=dict(given))
        if told:  # before there was anything to end
            process.terminate()
        # With a bound it looks up now and then: a signal that comes in the moment before a wait without one begins is
        # handled only when that ends.
        status = process.wait(_FOR_EVER_SECONDS)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
