"""How soon the outbox sends what was committed, how many rows a second, and what a row costs its sender."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ..load.sockets import BenchError
from ..machine.description import ROOT, machine
from ..machine.processes import close_pipes, stop
from ..machine.procfs import cpu_ns
from ..servers.fastpath_server import sidecar
from ..servers.outbox_project import PROGRAM, SETTINGS

EPILOG = """\
Without --postgres the outbox is on SQLite, where its sender looks five times a second. The database that is named has
to be an empty one, of a server on which every commit is as safe as in production; PYTHONPATH has psycopg."""

READY = "sending the outbox of"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `outbox [--postgres HOST --database NAME --user NAME] [--rows N] [--messages N] [--repeat
    N]`."""
    parser.epilog = EPILOG
    parser.add_argument("--postgres", metavar="HOST", help="a server, or the folder of its socket")
    parser.add_argument("--database", default="postgres", metavar="NAME", help="an empty one (default postgres)")
    parser.add_argument("--user", default="postgres", metavar="NAME", help="default postgres")
    parser.add_argument("--rows", type=int, default=20_000, metavar="N", help="that wait at its start (default 20000)")
    parser.add_argument("--messages", type=int, default=300, metavar="N", help="that come one by one (default 300)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="default 3")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print a table."""
    database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3"}
    if arguments.postgres:
        names = {"NAME": arguments.database, "USER": arguments.user, "HOST": arguments.postgres}
        database = names | {"ENGINE": "django.db.backends.postgresql"}
    rates, costs, times = [], [], []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fp-bench-")))
        own = stack.enter_context(sidecar(None, mode="none"))
        site = Site(folder, {"NAME": str(folder / "db.sqlite3")} | database, own.control, f"{own.host}:{own.port}")
        site.migrate()
        filler = stack.enter_context(site.filler())
        for _ in range(max(arguments.repeat, 1)):
            if (count := filler(f"fill {arguments.rows}")) != arguments.rows:
                raise BenchError(f"the outbox has {count} rows, and not {arguments.rows}: the database is to be empty")
            with site.sender() as pid:
                before, began = cpu_ns([pid]), time.monotonic()
                filler("drain")
                rates.append(arguments.rows / (time.monotonic() - began))
                costs.append((cpu_ns([pid]) - before) / 1000 / arguments.rows)
                times.append(filler(f"latency {arguments.messages}"))
    told = machine()
    print(f"Revision: {told['revision']}; {'PostgreSQL' if arguments.postgres else 'SQLite'}\n")
    print("| rows/s | CPU of the sender, µs a row | p50 ms | p90 ms | p99 ms |")
    print("|---|---|---|---|---|")
    shown = " | ".join(f"{median(each[len(each) * part // 100] for each in times):.1f}" for part in (50, 90, 99))
    print(f"| {median(rates):,.0f} | {median(costs):.1f} | {shown} |")
    return 0


class Site:
    """A project in a folder; its processes."""

    def __init__(self, folder: Path, database: dict[str, Any], control: str, clients: str) -> None:
        self._folder = folder
        self._clients = clients
        (folder / "bench_settings.py").write_text(SETTINGS)
        (folder / "filler.py").write_text(PROGRAM)
        paths = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "DJANGO_SETTINGS_MODULE": "bench_settings",
            "BENCH_DATABASE": json.dumps(database),
            "BENCH_CONTROL": control,
        }

    def migrate(self) -> None:
        """Make the tables."""
        command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
        if subprocess.run(command, env=self._environment, check=False).returncode:
            raise BenchError("the tables of the outbox could not be made; the reason is above")

    @contextlib.contextmanager
    def sender(self) -> Iterator[int]:
        """Run `realtime_outbox`; yield its process id once it says that it sends."""
        with self._process(["-m", "django", "realtime_outbox"], READY) as process:
            yield process.pid

    @contextlib.contextmanager
    def filler(self) -> Iterator[Any]:
        """Yield a function that tells the filler what to do, and has what it says of it."""
        clients = f"ws://{self._clients}/"
        with self._process([str(self._folder / "filler.py"), clients], "ready") as process:

            def tell(line: str) -> Any:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
                said = process.stdout.readline()
                if not said:
                    raise BenchError("the process that fills the outbox has ended; what it says is above")
                return json.loads(said)

            yield tell

    @contextlib.contextmanager
    def _process(self, command: list[str], ready: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith(ready):
                raise BenchError(f"{' '.join(command)} has not started; what it says is above")
            yield process
        finally:
            stop(process)
            close_pipes(process)
