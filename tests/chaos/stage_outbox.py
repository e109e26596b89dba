"""A stage whose messages come out of an outbox: PostgreSQL, writers of transactions, two senders, and one node."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Coroutine
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.postgres import Postgres, program
from tests.support.realtime.server import Program
from tests.support.sidecar import ROOT
from tests.support.waiting import auntil

from .model import ACKED, REFUSED, Publication, Run, Seen
from .reader import Reader
from .stage import REST_SECONDS, SUBJECTS, Client, Stage
from .transactions import READY as COUNTING
from .transactions import content_of
from .watcher import Watcher, now_ms

SENDERS = ("sender 0", "sender 1")
WRITERS = ("writer 0", "writer 1")
SENDING = "sending the outbox of"
"""What `realtime_outbox` says when it runs."""

TEMPLATE = "template_outbox"
CACHE_SECONDS = 600
"""The log at the end is all that was stored."""

READY_SECONDS = 60.0
_NAMES = count(1)


@lru_cache
def no_postgres() -> str:
    """Why there is no PostgreSQL here; empty when there is."""
    try:
        program("postgres")
    except AssertionError as error:
        return str(error)
    return ""


def environment(host: str, database: str, other: Path) -> dict[str, str]:
    """Of programs of the project."""
    return {
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
        "TEST_POSTGRES_HOST": host,
        "REALTIME_DATABASE": database,
        "REALTIME_OUTBOX": "default",
        "CHAOS_OTHER_DATABASE": str(other),
    }


def query(host: str, database: str, statement: str, given: str = "") -> list[list[str]]:
    """The rows of a statement, as text; ``given`` is what it copies. Raises CalledProcessError."""
    command = [program("psql"), "-h", host, "-U", "postgres", "-d", database, "-XqAt", "-F", "\t", "-c", statement]
    done = subprocess.run(command, input=given, check=True, capture_output=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@lru_cache
def server() -> Postgres:
    """The server of this process, with a database from which those of all runs are made."""
    made = Postgres()
    made.__enter__()
    atexit.register(made.__exit__)
    query(made.host, "postgres", f"CREATE DATABASE {TEMPLATE}")
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "realtime", "--verbosity=0"],
        cwd=ROOT,
        env=os.environ | environment(made.host, TEMPLATE, made.folder / "none.sqlite3"),
        check=True,
    )
    query(made.host, TEMPLATE, "CREATE TABLE counter (subject text PRIMARY KEY, count bigint NOT NULL)")
    return made


async def all_of(*work: Coroutine[Any, Any, None]) -> None:
    """Do all at once; raises the first error when all have ended, so that no process starts behind it."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if error is not None:
            raise error


class OutboxStage(Stage):
    """What was published is what PostgreSQL says was committed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(rates=(), journal="interval", cache_seconds=CACHE_SECONDS, **settings)
        self.database = f"run_{os.getpid()}_{next(_NAMES)}"
        self.other = Path(self.folder.name) / "other.sqlite3"
        self.programs: dict[str, Program] = {}
        self._ended: list[str] = []
        self.emptied = False
        """Whether nothing waited at the end."""

    # The processes

    async def _open(self) -> None:
        await asyncio.to_thread(self._make_databases)
        await super()._open()
        await all_of(*(self.begin(name) for name in (*SENDERS, *WRITERS)))
        await self.healthy(READY_SECONDS)

    def _make_databases(self) -> None:
        self.host = server().host
        query(self.host, "postgres", f"CREATE DATABASE {self.database} TEMPLATE {TEMPLATE}")
        query(self.host, self.database, "COPY counter FROM STDIN", "".join(f"{one}\t0\n" for one in SUBJECTS))
        made = sqlite3.connect(self.other)
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE note (writer text)")
        made.close()

    def _make_clients(self) -> list[Client]:
        return [Watcher("reference", self.near, SUBJECTS), Reader("library", self.near, SUBJECTS)]

    async def begin(self, name: str, **options: Any) -> None:
        """Start a sender or a writer."""
        given = {"name": name, "seed": self.random.random(), "subjects": SUBJECTS} | options
        argv, ready = ["django", "realtime_outbox"], re.escape(SENDING)
        if name in WRITERS:
            argv, ready = ["tests.chaos.transactions", json.dumps(given)], COUNTING
        more = environment(self.host, self.database, self.other)
        more["FASTPATH_CONTROL"] = self.nodes[0].sidecar.control
        made = Program([sys.executable, "-m", *argv], more, ready, READY_SECONDS)
        self.programs[name] = await asyncio.to_thread(made.__enter__)

    async def kill(self, name: str) -> None:
        """kill -9."""
        self.programs[name].process.kill()
        await self.ended(name)

    async def ended(self, name: str) -> None:
        """Until the process has ended, and what it wrote is read."""
        gone = self.programs.pop(name)
        await asyncio.to_thread(gone.process.wait, 60)
        await asyncio.to_thread(gone.__exit__)
        self._ended.append(f"--- {name}\n{gone.output}")

    async def __aexit__(self, *_: object) -> None:
        for name in list(self.programs):
            await self.kill(name)
        await super().__aexit__()
        with suppress(AttributeError, subprocess.CalledProcessError):
            await self.query(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)", "postgres")

    # What the database says

    async def query(self, statement: str, database: str = "") -> list[list[str]]:
        """The rows of a statement."""
        return await asyncio.to_thread(query, self.host, database or self.database, statement)

    async def leader(self) -> str:
        """The sender that sends; the first when that has not begun yet."""
        rows = await self.query("SELECT split_part(holder, ' ', 2) FROM realtime_outboxstate")
        pids = {str(self.programs[name].process.pid): name for name in SENDERS if name in self.programs}
        return pids.get(rows[0][0] if rows else "", SENDERS[0])

    async def under_way(self) -> bool:
        """Whether a batch may have been sent that is not settled."""
        return bool(await self.query("SELECT 1 FROM realtime_outboxstate WHERE pending::text <> '[]'"))

    async def _sent(self) -> int:
        rows = await self.query("SELECT sent FROM realtime_outboxstate")
        return int(rows[0][0]) if rows else 0

    async def _empty(self) -> bool:
        return not await self.query("SELECT 1 FROM realtime_outboxmessage LIMIT 1")

    async def healthy(self, seconds: float) -> None:
        """Wait until all processes run, rows are sent, and every client reads."""
        if not self.programs:
            return
        since, before = now_ms(), await self._sent()

        async def well() -> bool:
            for name, one in self.programs.items():
                assert one.process.poll() is None, f"{name} has ended: {one.output}"
            reads = all(client.connected and client.last_ms > since for client in self.clients)
            return reads and await self._sent() > before

        try:
            await auntil(well, seconds)
        except AssertionError as error:
            raise AssertionError(f"not well again within {seconds:g} s: {error}{self.ends_of_logs()}") from None

    # The end

    async def finish(self) -> Run:
        """Stop the writers, wait until nothing waits, and read what was committed."""
        for name in WRITERS:
            await self.kill(name)
        with suppress(AssertionError):
            await auntil(self._empty, REST_SECONDS)
        self.emptied = await self._empty()
        counts = {subject: int(reached) for subject, reached in await self.query("SELECT * FROM counter")}
        heads = {subject: content_of(subject, reached) for subject, reached in counts.items() if reached}
        with suppress(AssertionError):
            await auntil(lambda: all(heads.items() <= newest(client).items() for client in self.clients), REST_SECONDS)
        await asyncio.sleep(0.2)
        await self.read_end()
        for client in self.clients:
            await client.stop()
        self.run.traces = [client.trace for client in self.clients]
        seen = [event.content for trace in self.run.traces for event in trace.events if isinstance(event, Seen)]
        seen += [content for log in self.run.final.values() for _, content in log]
        self.run.publications = committed(counts, seen)
        return self.run

    def logs(self) -> dict[str, str]:
        """Also those of the programs."""
        found = {name.replace(" ", "-"): one.output for name, one in self.programs.items()}
        return super().logs() | found | {"ended": "\n".join(self._ended)}


def newest(client: Client) -> dict[str, str]:
    """The content that a client was sent last of each subject."""
    return {event.subject: event.content for event in client.trace.events if isinstance(event, Seen)}


def committed(counts: dict[str, int], seen: list[str]) -> dict[str, Publication]:
    """What is to be stored, in its order: of each subject as one publisher's; and what was seen that never may be."""
    found: dict[str, Publication] = {}
    for subject, reached in counts.items():
        for number in range(1, reached + 1):
            content = content_of(subject, number)
            found[content] = Publication(content, f"commits of {subject}", number, subject, ACKED)
    for content in seen:
        if content not in found:
            found[content] = Publication(content, "rolled back", 0, "", REFUSED, code="rolled back")
    return found
